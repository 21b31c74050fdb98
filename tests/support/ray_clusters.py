"""A Ray cluster on this machine, for tests; they are skipped where Ray is not installed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def local_ray() -> Iterator[None]:
    """Two workers, to which joblib sends its pieces; they find modules where this process does."""
    joblib = pytest.importorskip("joblib")
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    paths = os.pathsep.join(path for path in sys.path if path)
    options = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
    memory = 100 * 2**20  # the least that Ray takes is 75 MiB
    environment = {"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}}
    ray.init("local", object_store_memory=memory, runtime_env=environment, **options)
    try:
        register_ray()
        with joblib.parallel_config(backend="ray"):
            yield
    finally:
        ray.shutdown()
