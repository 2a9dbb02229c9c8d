from service.http.telling import phased
from service.search.request import SearchResult


def result(**took_ms: float) -> SearchResult:
    return SearchResult(hits=[], cursor=None, read_as={}, explain=None, took_ms=took_ms)


def test_the_lanes_phases_stand_beside_the_scoring_they_were_part_of() -> None:
    found = phased(result(lanes=3.0, score=20.0, snippets=1.0), {"semantic": 15.0, "rescore": 2.0})
    assert list(found.took_ms.items()) == [
        ("lanes", 3.0),
        ("score", 3.0),
        ("semantic", 15.0),
        ("rescore", 2.0),
        ("snippets", 1.0),
    ]


def test_without_the_lane_nothing_changes() -> None:
    assert phased(result(score=2.0), {}).took_ms == {"score": 2.0}
