"""Attention with and without a cache, and fp8 rounding against the format's own definition."""

import subprocess
import sys
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdocs.errors import ConfigError
from kvdocs.model.dtypes import head_bytes
from kvdocs.numeric.attention import (
    Heads,
    Layer,
    multiplied,
    project,
    reordering_bound,
    with_cache,
    without_cache,
)
from kvdocs.numeric.fp8 import calibrated_scale, per_tensor, per_token_head, round_e4m3
from kvdocs.numeric.rounding import relative_rms, rounding_errors, sample

MHA, GQA, MQA = Heads(8, 8, 16), Heads(8, 2, 16), Heads(8, 1, 16)
KINDS = pytest.mark.parametrize("heads", [MHA, GQA, MQA, Heads(3, 1, 5), Heads(1, 1, 1)], ids=str)
DTYPES = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])


def tokens_of(count, *, width=48, seed=3, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((count, width)).astype(dtype)


def attention_by_the_book(layer, x):
    """Causal attention in float64, one head at a time, from the definition."""
    x = x.astype(np.float64)
    heads = layer.heads
    outputs = np.empty((len(x), heads.num_heads, heads.head_size))
    for head in range(heads.num_heads):
        shared = head // (heads.num_heads // heads.num_kv_heads)
        queries = x @ layer.w_q[head].T.astype(np.float64)
        keys = x @ layer.w_k[shared].T.astype(np.float64)
        values = x @ layer.w_v[shared].T.astype(np.float64)
        scores = queries @ keys.T / heads.head_size**0.5
        scores[np.triu_indices(len(x), k=1)] = -np.inf
        weights = np.exp(scores)
        outputs[:, head] = weights @ values / weights.sum(axis=1, keepdims=True)
    return outputs


class TestAttention:
    @KINDS
    def test_is_what_the_definition_says(self, heads):
        layer, x = Layer.random(heads, width=48, seed=5), tokens_of(30)
        expected = attention_by_the_book(layer, x)
        assert np.abs(without_cache(layer, x).outputs - expected).max() < 1e-5

    @KINDS
    @DTYPES
    @pytest.mark.parametrize("prompt", [1, 2, 17, 32, 33])
    def test_a_cache_changes_not_one_bit(self, heads, dtype, prompt):
        layer = Layer.random(heads, width=48, seed=5, dtype=dtype)
        x = tokens_of(33, dtype=dtype)
        cached, anew = with_cache(layer, x, prompt=prompt), without_cache(layer, x)
        assert cached.outputs.dtype == dtype
        assert cached.outputs.tobytes() == anew.outputs.tobytes()

    @settings(max_examples=40, deadline=None)
    @given(
        group=st.integers(1, 6),
        kv_heads=st.integers(1, 4),
        sizes=st.tuples(st.integers(1, 40), st.integers(1, 70)),
        count=st.integers(1, 40),
        data=st.data(),
    )
    def test_nor_for_any_other_shape(self, group, kv_heads, sizes, count, data):
        head_size, width = sizes
        heads = Heads(group * kv_heads, kv_heads, head_size)
        seed = count
        layer = Layer.random(heads, width=width, seed=seed)
        x = tokens_of(count, width=width, seed=seed)
        prompt = data.draw(st.integers(1, count))
        cached, anew = with_cache(layer, x, prompt=prompt), without_cache(layer, x)
        assert cached.outputs.tobytes() == anew.outputs.tobytes()

    @pytest.mark.parametrize("heads", [GQA, MQA], ids=["GQA", "MQA"])
    def test_grouped_heads_equal_copied_ones_to_the_bit(self, heads):
        layer, x = Layer.random(heads, width=48, seed=5), tokens_of(25)
        copied = layer.with_copied_kv_heads()
        assert copied.heads == MHA
        one, other = without_cache(layer, x).outputs, without_cache(copied, x).outputs
        assert one.tobytes() == other.tobytes()

    def test_a_cache_computes_each_token_once_and_recomputing_the_triangle(self):
        layer, x = Layer.random(GQA, width=48, seed=5), tokens_of(20)
        assert with_cache(layer, x, prompt=8).projected == 20
        assert without_cache(layer, x).projected == 20 * 21 // 2

    def test_a_token_looks_back_only(self):
        layer, x = Layer.random(GQA, width=48, seed=5), tokens_of(20)
        changed = x.copy()
        changed[15:] += 1
        before, after = without_cache(layer, x).outputs, without_cache(layer, changed).outputs
        assert before[:15].tobytes() == after[:15].tobytes()
        assert (before[15:] != after[15:]).any()

    @DTYPES
    def test_a_matrix_product_differs_by_no_more_than_the_order_of_addition_can(self, dtype):
        layer = Layer.random(GQA, width=300, seed=5, dtype=dtype)
        x = tokens_of(40, width=300, dtype=dtype)
        together, alone = multiplied(layer.w_k, x), project(layer.w_k, x)
        difference = np.abs(together.astype(np.float64) - alone.astype(np.float64))
        assert (difference <= reordering_bound(layer.w_k, x)).all()

    def test_that_bound_is_a_few_units_in_the_last_place(self):
        layer, x = Layer.random(GQA, width=300, seed=5), tokens_of(40, width=300)
        bound = reordering_bound(layer.w_k, x)
        assert bound.max() < 1e-3
        assert bound.min() > 0

    @pytest.mark.parametrize("prompt", [0, 21, -1])
    def test_a_prompt_that_is_none_is_refused(self, prompt):
        layer, x = Layer.random(GQA, width=48, seed=5), tokens_of(20)
        with pytest.raises(ConfigError, match="1 to 20"):
            with_cache(layer, x, prompt=prompt)

    @pytest.mark.parametrize("sizes", [(8, 3, 16), (8, 0, 16), (0, 1, 16), (8, 16, 4)])
    def test_heads_that_cannot_be_shared_are_refused(self, sizes):
        with pytest.raises(ConfigError):
            Heads(*sizes)


def every_e4m3():
    """All finite e4m3 numbers of at least 0 in order of their codes, from arXiv 2209.05433."""
    numbers = []
    for code in range(0x7F):  # 0x7f is the only NaN of that sign
        exponent, mantissa = code >> 3, code & 7
        if exponent:
            numbers.append(Fraction(8 + mantissa, 8) * Fraction(2) ** (exponent - 7))
        else:
            numbers.append(Fraction(mantissa, 8) * Fraction(2) ** -6)
    return numbers


CODES = every_e4m3()


def nearest_code(number):
    """The code whose number is nearest; of two the even one; above all the last."""
    after = bisect_left(CODES, number)
    if after == len(CODES):
        return len(CODES) - 1
    if after == 0:
        return 0
    below, above = number - CODES[after - 1], CODES[after] - number
    if below == above:
        return after if after % 2 == 0 else after - 1
    return after if above < below else after - 1


class TestE4m3:
    def test_its_largest_number_is_448_and_its_smallest_is_two_to_the_minus_nine(self):
        assert (CODES[-1], CODES[1]) == (448, Fraction(1, 512))

    def test_every_number_of_the_format_stays(self):
        numbers = np.array([float(number) for number in CODES], np.float32)
        assert round_e4m3(numbers).view(np.uint8).tolist() == list(range(0x7F))
        assert round_e4m3(-numbers).view(np.uint8).tolist() == [0x80 | i for i in range(0x7F)]

    def test_halfway_goes_to_the_even_code(self):
        halves = [(one + other) / 2 for one, other in pairwise(CODES)]
        got = round_e4m3(np.array([float(half) for half in halves], np.float32)).view(np.uint8)
        assert got.tolist() == [nearest_code(half) for half in halves]

    @given(st.floats(-1000, 1000, width=32))
    def test_any_number_goes_to_the_nearest(self, number):
        code = int(round_e4m3(np.array([number], np.float32)).view(np.uint8)[0])
        assert code & 0x7F == nearest_code(abs(Fraction(number)))

    @given(st.floats(2.0**-6, 448, width=32))
    def test_a_normal_number_is_off_by_a_sixteenth_at_most(self, number):
        rounded = float(round_e4m3(np.array([number], np.float32)).astype(np.float32)[0])
        assert abs(rounded - number) <= number / 16

    def test_too_large_is_cut_to_448_and_not_lost(self):
        assert round_e4m3(np.array([449, 1e9, np.inf])).astype(float).tolist() == [448.0] * 3


class TestScales:
    def test_a_calibrated_scale_keeps_what_a_scale_of_one_would_cut(self):
        numbers = np.array([[[1000.0, -3.0, 250.0]]], np.float32)
        assert per_tensor(numbers).read().max() == 448
        kept = per_tensor(numbers, scale=calibrated_scale(numbers)).read()
        assert kept.max() == pytest.approx(1000, rel=1e-6)

    def test_each_token_and_head_is_scaled_to_its_own_largest(self):
        numbers = np.array([[[0.001, -0.002], [70.0, 700.0]], [[1.0, 2.0], [0.0, 0.0]]])
        stored = per_token_head(numbers)
        expected = np.array([[0.002, 700.0], [2.0, 448e-6]]) / 448
        assert stored.scales.squeeze() == pytest.approx(expected, rel=1e-6)
        assert np.abs(stored.codes.astype(np.float32)).max(axis=-1).tolist() == [
            [448, 448],
            [448, 0],
        ]

    def test_an_outlier_spoils_its_own_head_only(self):
        numbers = np.random.default_rng(0).standard_normal((50, 2, 64)).astype(np.float32) * 1e-3
        numbers[:, 1, 0] = 4000.0
        one = per_tensor(numbers, scale=calibrated_scale(numbers)).read()
        each = per_token_head(numbers).read()
        assert relative_rms(one[:, 0], numbers[:, 0]) == 1.0  # all of it rounded to nothing
        assert relative_rms(each[:, 0], numbers[:, 0]) < 0.03

    def test_bytes_are_those_that_vllm_sets_aside(self):
        keys = np.ones((10, 4, 128), np.float32)
        for dtype, stored in (("fp8_per_token_head", per_token_head(keys)),):
            assert 2 * stored.num_bytes == 10 * 4 * head_bytes(dtype, 128, 128)
        assert 2 * per_tensor(keys).codes.nbytes == 10 * 4 * head_bytes("fp8", 128, 128)

    @pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_scale_that_is_none_is_refused(self, scale):
        with pytest.raises(ConfigError, match="above 0"):
            per_tensor(np.ones((1, 1, 1)), scale=scale)


class TestErrors:
    def test_fp8_is_off_by_the_two_or_three_percent_that_three_bits_of_mantissa_give(self):
        layer, x = sample(Heads(8, 2, 64), tokens=60, width=128, seed=1)
        by_scheme = {error.scheme: error for error in rounding_errors(layer, x, prompt=40)}
        # Spacing 1/8 in [1, 2): a uniform error has rms 1/8/sqrt(12) = 3.6 % of 1 and half of it
        # of 2; on the average over the interval, 2.6 %. bf16 has four bits more.
        for error in by_scheme.values():
            bits = 8 if error.scheme == "bf16" else 4
            assert 0.022 < error.keys * 2 ** (bits - 4) < 0.03, error
            assert 0.022 < error.values * 2 ** (bits - 4) < 0.03, error

    def test_attention_averages_the_errors_of_values(self):
        layer, x = sample(Heads(8, 2, 64), tokens=60, width=128, seed=1, key_size=0.01)
        plain = rounding_errors(layer, x, prompt=40)[1]
        # Keys this small make all scores nearly equal: outputs are means, and errors with them.
        assert plain.output == pytest.approx(plain.values, rel=0.25)

    def test_without_calibration_small_keys_lose_their_last_bits(self):
        layer, x = sample(Heads(8, 2, 64), tokens=60, width=128, seed=1, key_size=1e-3)
        _, plain, calibrated, each = rounding_errors(layer, x, prompt=40)
        assert plain.keys > 0.3
        assert max(calibrated.keys, each.keys) < 0.03


class TestWithoutTheExtra:
    def run(self, code):
        hidden = "import sys\nsys.modules['numpy'] = None\nsys.modules['ml_dtypes'] = None\n"
        return subprocess.run(
            [sys.executable, "-c", hidden + code], capture_output=True, text=True, check=False
        )

    def test_the_rest_of_kvdocs_needs_no_numpy(self):
        code = (
            "import importlib, pkgutil, kvdocs\n"
            "quiet = lambda _: None\n"
            "for one in pkgutil.walk_packages(kvdocs.__path__, 'kvdocs.', onerror=quiet):\n"
            "    if not one.name.startswith(('kvdocs.numeric', 'kvdocs.__main__')):\n"
            "        importlib.import_module(one.name)\n"
        )
        done = self.run(code)
        assert done.returncode == 0, done.stderr

    def test_kvdocs_numeric_says_what_to_install(self):
        done = self.run("import kvdocs.numeric.attention")
        assert done.returncode == 1
        assert "ExtraError: kvdocs.numeric needs numpy and ml_dtypes" in done.stderr
        assert "pip install 'kvdocs[numeric]'" in done.stderr
