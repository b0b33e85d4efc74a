"""Slabs and blocks: both reserve what they say, and only slabs waste much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.allocators import ContiguousAllocator, PagedAllocator
from kvdocs.errors import AllocationError

MAKERS = {
    "slabs": lambda: ContiguousAllocator(400, max_model_len=64),
    "blocks": lambda: PagedAllocator(400, block_size=16),
}


@pytest.fixture(params=MAKERS)
def memory(request):
    return MAKERS[request.param]()


def test_slabs_reserve_for_the_longest_answer():
    slabs = ContiguousAllocator(8192, max_model_len=2048)
    slabs.allocate("a", 100)
    usage = slabs.usage()
    assert (usage.reserved, usage.used, usage.wasted) == (2048, 100, 1948)


def test_blocks_waste_less_than_one_block_per_request():
    blocks = PagedAllocator(8192, block_size=16)
    blocks.allocate("a", 100)
    usage = blocks.usage()
    assert (usage.reserved, usage.used, usage.wasted) == (112, 100, 12)


def test_blocks_admit_what_slabs_turn_away():
    slabs = ContiguousAllocator(8192, max_model_len=2048)
    blocks = PagedAllocator(8192, block_size=16)
    for memory, most in ((slabs, 4), (blocks, 8192 // 112)):
        count = 0
        while memory.can_allocate(100):
            memory.allocate(f"r{count}", 100)
            count += 1
        assert count == most


def test_a_request_grows_until_its_slab_is_full():
    slabs = ContiguousAllocator(100, max_model_len=10)
    slabs.allocate("a", 9)
    assert slabs.can_grow("a")
    slabs.grow("a")
    assert not slabs.can_grow("a")
    with pytest.raises(AllocationError, match="10 of 10 tokens"):
        slabs.grow("a")


def test_taking_what_is_not_there_is_an_error(memory):
    with pytest.raises(AllocationError):
        memory.allocate("a", 401)


def test_a_request_gets_memory_once(memory):
    memory.allocate("a", 1)
    with pytest.raises(AllocationError, match="'a' already has memory"):
        memory.allocate("a", 1)


@given(
    kind=st.sampled_from(sorted(MAKERS)),
    moves=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 70), st.booleans())),
)
def test_no_place_is_given_twice_and_all_comes_back(kind, moves):
    memory, tokens = MAKERS[kind](), {}
    for name, count, grow in moves:
        if name not in tokens:
            if memory.can_allocate(count):
                memory.allocate(name, count)
                tokens[name] = count
        elif not grow:
            memory.free(name)
            del tokens[name]
        elif memory.can_grow(name, count):
            memory.grow(name, count)
            tokens[name] += count
        usage = memory.usage()
        places = [place for known in tokens for part in memory.extents(known) for place in part]
        assert len(places) == len(set(places)) == usage.reserved
        assert all(0 <= place < usage.capacity for place in places)
        assert usage.used == sum(tokens.values())
        assert usage.wasted >= 0
    for name in tokens:
        memory.free(name)
    assert memory.usage().reserved == 0
