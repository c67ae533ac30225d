"""The limits of a tenant, and the words of a refusal."""

from __future__ import annotations

import pytest

from tenantry.model.quotas import (
    ARCHIVES,
    DATABASE,
    PACKAGES,
    QuotaReached,
    Quotas,
    bytes_of,
    check_rate,
    check_storage,
    told,
)

MIB = 1 << 20
STORAGE = {
    "there is no limit": (None, 900, 900, False),
    "there is room": (1000, 900, 100, False),
    "one byte is too many": (1000, 900, 101, True),
    "nothing more is needed, though more is used than is allowed now": (1000, 2000, 0, False),
    "less is needed than before": (1000, 2000, -1, False),
    "more is used than is allowed now": (1000, 2000, 1, True),
}
RATES = {"there is room": (0.0, ""), "the bucket is empty": (0.02, "try again in 1 s"), "for long": (2.5, "try again in 3 s")}
WORDS = {
    PACKAGES: "delete versions that no app needs",
    DATABASE: "delete rows",
    ARCHIVES: "set deletionPolicy to Delete",
}


@pytest.mark.parametrize(("limit", "used", "more", "refused"), STORAGE.values(), ids=STORAGE.keys())
def test_storage_is_refused_where(limit: int | None, used: int, more: int, refused: bool) -> None:
    if not refused:
        check_storage(PACKAGES, limit, used, more)
        return
    with pytest.raises(QuotaReached):
        check_storage(PACKAGES, limit, used, more)


@pytest.mark.parametrize(("quota", "advice"), WORDS.items())
def test_a_refusal_names_quota_tenant_limit_use_and_a_way_on(quota: str, advice: str) -> None:
    with pytest.raises(QuotaReached) as refused:
        check_storage(quota, 10 * MIB, 9 * MIB, 2 * MIB, "tenant acme")
    message = refused.value.verdict.message
    assert message.startswith(f"quota.{quota} of tenant acme is reached: 9 MiB of 10 MiB are used, and 2 MiB more are needed")
    assert advice in message
    assert refused.value.verdict.reason == "QuotaReached"


@pytest.mark.parametrize(("wait_s", "said"), RATES.values(), ids=RATES.keys())
def test_a_request_is_refused_where(wait_s: float, said: str) -> None:
    if not said:
        check_rate(5, wait_s)
        return
    with pytest.raises(QuotaReached, match=said) as refused:
        check_rate(5, wait_s)
    assert refused.value.retry_after >= wait_s


def test_what_is_declared_wins_over_the_default() -> None:
    limits = Quotas(package_storage=1, operations=7).over(Quotas(package_storage=9, archive_storage=5))
    assert limits == Quotas(package_storage=1, archive_storage=5, operations=7)


@pytest.mark.parametrize(("storage", "size"), [("1Ki", 1024), ("512Mi", 512 << 20), ("2Gi", 2 << 30), ("3Ti", 3 << 40)])
def test_a_size_is_written_as_on_a_cluster(storage: str, size: int) -> None:
    assert bytes_of(storage) == size


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1025, "1.1 KiB"), (5 << 30, "5 GiB"), (3 << 50, "3072 TiB")],
)
def test_sizes_are_told_never_too_small(size: int, words: str) -> None:
    assert told(size) == words
