"""Work that does not look at the clock ends all the same, and work that does is left alone."""

import cProfile
import signal
import subprocess
import sys
import time

import pytest

from blomodel.basics.alarm import alarm, enter_shelter, in_time, leave_shelter
from blomodel.basics.deadline import NEVER, Deadline


class Over(Exception):
    pass


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def test_endless_work_ends():
    began = time.perf_counter()
    with pytest.raises(Over), alarm(Deadline.after(0.1), Over):
        busy(20)
    assert time.perf_counter() - began < 2


def test_work_that_ends_in_time_goes_on_undisturbed():
    with alarm(Deadline.after(0.1), Over):
        busy(0.01)
    busy(0.2)  # nothing comes later


def test_a_grace_is_given():
    with alarm(Deadline.after(0.01), Over, grace=5.0):
        busy(0.1)


def test_there_need_not_be_a_limit():
    with alarm(NEVER, Over):
        busy(0.01)


def test_a_profiler_does_not_mind():
    profile = cProfile.Profile()
    profile.enable()
    with alarm(Deadline.after(5), Over):
        busy(0.01)
    busy(0.01)
    profile.disable()


def test_an_error_of_the_work_is_passed_on():
    with pytest.raises(KeyError), alarm(Deadline.after(5), Over):
        raise KeyError


def test_work_in_a_shelter_is_finished_first():
    reached = []
    with pytest.raises(Over), alarm(Deadline.after(0.05), Over):
        enter_shelter()
        busy(0.3)
        reached.append("end of the shelter")
        leave_shelter()
        busy(20)
    assert reached


def test_numba_is_not_stopped_half_way():
    import numba

    import blomodel.model.model  # where the shelter is set up

    assert blomodel.model.model

    @numba.njit
    def work(x):
        return x + 1

    with pytest.raises(Over), alarm(Deadline.after(0.02), Over):
        work(1)
        assert work.signatures  # the alarm has waited
        busy(20)


def test_ctrl_c_waits_for_the_end_of_a_shelter():
    before, reached = signal.getsignal(signal.SIGINT), []
    enter_shelter()
    enter_shelter()
    signal.raise_signal(signal.SIGINT)
    busy(0.05)
    leave_shelter()
    busy(0.05)  # one shelter is left
    reached.append("end of the shelter")
    with pytest.raises(KeyboardInterrupt):
        leave_shelter()
        busy(20)
    assert reached and signal.getsignal(signal.SIGINT) is before


def test_the_second_ctrl_c_does_not_wait():
    enter_shelter()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        busy(20)
    with pytest.raises(KeyboardInterrupt):  # the first is still to come
        leave_shelter()
        busy(20)


INTERRUPTED_IN_A_STUB = """
import _thread, threading, time
import numba
import blomodel.model.model  # where the shelter is set up
from blomodel.kernels.jit import compiled
from blomodel.kernels.linked import linked

def interrupt():
    while not compiling.wait(0.001):
        pass
    _thread.interrupt_main()

compiling = threading.Event()

@numba.extending.register_jitable
def slow(x):
    return x + 1.0

def body(x):
    compiling.set()
    return x

@numba.extending.overload(body)
def typed(x):
    compiling.set()  # while the linked kernel is compiled, called by compiled code
    time.sleep(0.2)
    return lambda x: slow(x)

@linked(numba.float64, numba.float64)
def kernel(x):
    return body(x)

@numba.njit
def caller(x):
    return kernel(x)

threading.Thread(target=interrupt, daemon=True).start()
try:
    found = caller(1.0)
    time.sleep(20)
    print("lost")
except KeyboardInterrupt:
    print("raised", caller(1.0))
"""


def test_ctrl_c_is_not_lost_while_compiled_code_has_a_kernel_compiled(tmp_path):
    file = tmp_path / "stub.py"
    file.write_text(INTERRUPTED_IN_A_STUB)
    run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert run.stdout == "raised 2.0\n", run.stdout + run.stderr
    assert "Exception ignored" not in run.stderr


def test_work_that_does_not_end_in_time_brings_nothing():
    assert in_time(lambda: 3, Deadline.after(20)) == 3

    def endless():
        while True:
            pass

    began = time.perf_counter()
    assert in_time(endless, Deadline.after(0.05), grace=0.05) is None
    assert time.perf_counter() - began < 5.0


RUNG_IN_A_STUB = """
import sys
import numba
import blomodel.model.model  # where the keeper is made known
from blomodel.basics.alarm import alarm
from blomodel.basics.deadline import Deadline
from blomodel.kernels.linked import linked

class Over(Exception):
    pass

@linked(numba.float64, numba.float64)
def kernel(x):
    return x + 1.0

@numba.njit
def caller(x):
    return kernel(x) + kernel(x)

caller.compile("float64(float64)")
def ring(frame, event, arg):  # the alarm comes in the first step of the stub's work
    global is_rung
    if frame.f_code.co_name == "bind" and not is_rung:
        is_rung = True
        raise Over

is_rung, found = False, None
try:
    with alarm(Deadline.after(60), Over):
        sys.setprofile(ring)
        found = caller(1.0)
    print("lost", found)
except Over:
    sys.setprofile(None)
    print("raised", is_rung, caller(1.0))
"""


def test_an_alarm_is_not_lost_in_a_call_back_of_compiled_code(tmp_path):
    file = tmp_path / "rung.py"
    file.write_text(RUNG_IN_A_STUB)
    run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    # Both kernels gave what they should, the alarm came after them and before the work was left.
    assert run.stdout == "raised True 4.0\n", run.stdout + run.stderr
    assert "Exception ignored" not in run.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_that_comes_up_in_a_destructor_rings_again(monkeypatch):
    monkeypatch.setattr("blomodel.basics.alarm.BETWEEN_RINGS", 0.05)

    class Loses:
        def __del__(self):
            busy(0.2)

    began = time.perf_counter()
    with pytest.raises(Over), alarm(Deadline.after(0.05), Over):
        Loses()
        busy(20)
    assert time.perf_counter() < began + 20


NESTED = """
import time
from blomodel.basics.alarm import alarm, in_time
from blomodel.basics.deadline import Deadline

def start_alarms():
    while True:
        with alarm(Deadline.after(30.0), KeyError):
            pass

end, count = time.perf_counter() + 5, 0
while time.perf_counter() < end:
    in_time(start_alarms, Deadline.after(0.002 + 1e-5 * (count % 97)))
    count += 1
print("all ended")
"""


def test_an_alarm_does_not_reach_the_thread_that_is_just_being_started():
    # It would end before it has begun, and who has started it would wait for ever.
    run = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True, timeout=60)
    assert "all ended" in run.stdout, run.stderr[-2000:]
