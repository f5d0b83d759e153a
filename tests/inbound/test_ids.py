from gateway.outbound.ids import id_maker


def test_an_id_is_its_kind_its_time_and_chance() -> None:
    make_id = id_maker(lambda: 1_800_000_000.123, lambda count: b"\xab" * count)
    assert make_id("run") == "run_01a3185c507b" + "ab" * 10


def test_ids_sort_by_time() -> None:
    times = iter([1.0, 2.0, 1e9, 1.8e9, 1.8e9 + 0.001])
    make_id = id_maker(lambda: next(times))
    made = [make_id("run") for _ in range(5)]
    assert made == sorted(made)


def test_two_ids_of_one_moment_differ() -> None:
    make_id = id_maker(lambda: 0.0)
    assert len({make_id("run") for _ in range(100)}) == 100
