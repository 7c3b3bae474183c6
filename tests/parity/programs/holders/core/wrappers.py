import contextlib
import functools
import time

import torch


def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        inner.seconds += time.perf_counter() - start
        return result

    inner.seconds = 0.0
    return inner


def logged(template):
    def decorate(method):
        @functools.wraps(method)
        def inner(self, *args, **kwargs):
            value = method(self, *args, **kwargs)
            self.history.append(value)
            print(template.format(value))
            return value

        return inner

    return decorate


@contextlib.contextmanager
def evaluating(module):
    was = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield module
    finally:
        module.train(was)


@contextlib.contextmanager
def section(name):
    print("begin", name)
    yield
    print("end", name)
