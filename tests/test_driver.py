"""One rank behind one step, on the CPU."""

import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isoradix import Control, ProtocolError, SlotPool  # noqa: E402
from isoradix.consensus import LocalPlane  # noqa: E402
from isoradix.copies import engine_for  # noqa: E402
from isoradix.driver import Driver  # noqa: E402
from isoradix.kv import DevicePool, HostPool, MHAShape  # noqa: E402

PAGE = 4
SLOTS = 64
PROMPT = list(range(32))
SETTLING_S = 60


def settle(driver: Driver) -> None:
    """Steps until nothing is under way. Votes and copies have threads of their own, so steps are no measure of them."""
    late = time.monotonic() + SETTLING_S
    while time.monotonic() < late:
        with driver.step() as cache:
            if cache.issued == cache.retired:
                return
        time.sleep(0.001)
    raise AssertionError("operations never end")


def test_load_backs_begin_before_the_step_ends_and_lock_nothing_else() -> None:
    shape = MHAShape(2, 1, 4, torch.float32)
    device, host = DevicePool(shape, SLOTS), HostPool(shape, 32, PAGE)
    with host:
        driver = Driver(
            LocalPlane(), engine_for(device, host), SlotPool(SLOTS, page_size=PAGE), page_size=PAGE, host_pages=32
        )
        with pytest.raises(ProtocolError, match="no step is open"):
            driver.begin_loads()
        with driver.step() as cache:
            first = driver.slots.alloc(len(PROMPT))
            device.buffer(1, "k")[torch.from_numpy(first)] = 7.0
            cache.insert(PROMPT, first)
        settle(driver)
        with driver.step() as cache:
            driver.slots.free(cache.evict(len(PROMPT)).slots)
            device.buffer(1, "k").zero_()
        with driver.step() as cache:
            assert driver.begin_loads() == ()
            other = cache.insert([-1 % 97] * 8, driver.slots.alloc(8))
            found = cache.match_prefix(PROMPT)
            lock = cache.host_lock(found.host_node)
            slots = driver.slots.alloc(cache.load_back_need(lock))
            cache.load_back(lock, slots)
            (copy,) = driver.begin_loads()
            assert cache.evictable_size == other.length, "no backup has begun"
            copy.wait_layer(1)
            assert bool((device.buffer(1, "k")[torch.from_numpy(slots)] == 7.0).all())
            assert np.array_equal(cache.slots(found.host_node), slots)
        assert driver.loads == ()
        assert driver.cache.evictable_size == 0, "what was inserted is backed up now"
        settle(driver)
        with driver.step([Control.stop()]):
            pass
        driver.close()
