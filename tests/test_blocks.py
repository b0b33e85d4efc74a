"""The block pool: order of the free queue, reference counts, hashes, eviction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdocs.blocks import NULL_BLOCK, ROOT_HASH, BlockPool, FreeQueue, blocks_for, hash_block
from kvdocs.errors import AllocationError


def chain(*blocks, extra=()):
    keys, parent = [], ROOT_HASH
    for content in blocks:
        parent = hash_block(parent, content, extra if not keys else ())
        keys.append(parent)
    return keys


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (8192, 512)])
def test_blocks_are_rounded_up(tokens, blocks):
    assert blocks_for(tokens, 16) == blocks


def test_the_null_block_is_never_handed_out():
    pool = BlockPool(4)
    assert pool.take(3) == [1, 2, 3]
    assert not pool.can_take(1)
    with pytest.raises(AllocationError, match="1 blocks asked for, but only 0 are free"):
        pool.take(1)


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["pop", "remove", "prepend", "append"]), st.integers(0))
    )
)
def test_the_free_queue_behaves_like_a_list(moves):
    queue, model, out = FreeQueue(9), list(range(1, 9)), []
    for move, number in moves:
        if move == "pop" and model:
            out.append(model.pop(0))
            assert queue.popleft() == out[-1]
        elif move == "remove" and model:
            out.append(model.pop(number % len(model)))
            queue.remove(out[-1])
        elif move == "prepend":
            queue.prepend(out)
            model, out = out + model, []
        elif move == "append":
            queue.append(out)
            model, out = model + out, []
        assert list(queue) == model
        assert len(queue) == len(model)


def test_popping_an_empty_queue_is_an_error():
    with pytest.raises(IndexError, match="can_take"):
        FreeQueue(1).popleft()


def test_freed_blocks_without_a_hash_are_reused_first_and_tail_first():
    pool = BlockPool(8)
    table = pool.take(3)
    pool.release(reversed(table))
    assert list(pool.free_queue) == [3, 2, 1, 4, 5, 6, 7]


def test_cached_blocks_go_to_the_back_and_lose_their_tail_first():
    pool = BlockPool(6)
    table = pool.take(3)
    for block, key in zip(table, ["k1", "k2", "k3"], strict=True):
        pool.register(block, key)
    pool.release(reversed(table))
    assert list(pool.free_queue) == [4, 5, 3, 2, 1]
    pool.take(3)
    assert pool.evicted == [3]
    assert [pool.is_cached(key) for key in ("k1", "k2", "k3")] == [True, True, False]


def test_a_hit_takes_a_free_block_out_of_the_queue_and_counts_one_owner_more():
    pool = BlockPool(4)
    (block,) = pool.take(1)
    pool.register(block, "k")
    pool.touch([block, NULL_BLOCK])
    pool.release([block])
    assert pool.ref_counts[block] == 1
    assert pool.num_free == 2
    pool.release([block])
    pool.touch([block])
    assert list(pool.free_queue) == [2, 3]


def test_equal_blocks_are_not_merged_and_the_oldest_is_found():
    pool = BlockPool(5)
    first, second = pool.take(2)
    pool.register(first, "k")
    pool.register(second, "k")
    assert (pool.find("k"), pool.num_cached) == (first, 1)
    pool.release([first])
    pool.take(3)  # 3 and 4 are plain, then the oldest cached one goes
    assert (pool.evicted, pool.find("k")) == ([first], second)


def test_usage_leaves_the_null_block_out():
    pool = BlockPool(65)
    pool.take(3)
    assert pool.usage == pytest.approx(3 / 64)


def test_a_hash_stands_for_all_tokens_before_it():
    assert chain((1, 2), (3, 4))[1] != chain((9, 2), (3, 4))[1]
    assert chain((1, 2), (3, 4)) == chain((1, 2), (3, 4))


def test_a_salt_changes_every_hash_of_the_chain():
    assert not set(chain((1,), (2,))) & set(chain((1,), (2,), extra=("salt",)))
