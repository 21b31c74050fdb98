
import cvxpy as cp
import blomodel as bm

toll, cars = cp.Variable(name="toll"), cp.Variable(name="cars")
drivers = bm.Lower(cp.Minimize(cars**2 / 2 - (10 - toll) * cars), [cars >= 0], variables=[cars])
problem = bm.BilevelProblem(cp.Maximize(toll * cars), [0 <= toll, toll <= 10], drivers)
