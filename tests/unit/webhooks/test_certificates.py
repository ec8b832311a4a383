"""Certificates over years: who signs, when a new authority is trusted, and when it signs."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from volcanoio.runtime.webhooks.certificates import (
    AUTHORITY_VALIDITY,
    OVERLAP,
    SERVING_VALIDITY,
    CertificateError,
    Certificates,
    create,
    load_into,
    problem_of,
    renewed,
    server_context,
)

NAMES = ("admission", "admission.ns", "admission.ns.svc")
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def authorities(held: Certificates) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(held.bundle)


def serving(held: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificate(held.certificate)


def following(held: Certificates, now: datetime) -> Certificates:
    """What is used after a check at a time."""
    return renewed(held, NAMES, now) or held


def test_new_certificates_are_accepted_for_every_name_at_once() -> None:
    made = renewed(None, NAMES, START)
    assert made is not None
    assert problem_of(made, NAMES, START) == ""
    assert renewed(made, NAMES, START) is None
    usage = serving(made).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert usage == x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])


def test_addresses_of_a_url_are_covered() -> None:
    made = create((*NAMES, "127.0.0.1"), START)
    assert problem_of(made, ("127.0.0.1",), START) == ""


def test_the_serving_certificate_is_renewed_by_the_same_authority_long_before_it_expires() -> None:
    held = create(NAMES, START)
    assert renewed(held, NAMES, START + SERVING_VALIDITY * 0.6) is None
    fresh = renewed(held, NAMES, START + SERVING_VALIDITY * 0.7)
    assert fresh is not None
    assert (fresh.bundle, fresh.authority_key) == (held.bundle, held.authority_key)
    assert serving(fresh).serial_number != serving(held).serial_number
    assert fresh.expires == START + SERVING_VALIDITY * 1.7


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    due = START + AUTHORITY_VALIDITY * 0.67
    held = following(create(NAMES, START), START + AUTHORITY_VALIDITY * 0.66)
    announced = following(held, due)
    assert [each.subject for each in authorities(announced)][1:] == [each.subject for each in authorities(held)]
    assert announced.certificate == held.certificate
    assert announced.authority_key != held.authority_key
    assert problem_of(announced, NAMES, due) == ""

    assert renewed(announced, NAMES, due + OVERLAP - timedelta(seconds=1)) is None
    signed = renewed(announced, NAMES, due + OVERLAP)
    assert signed is not None
    assert serving(signed).issuer == authorities(signed)[0].subject
    assert len(authorities(signed)) == 2, "replicas that still serve the old certificate are trusted"


def test_ten_years_of_checks_never_leave_an_invalid_certificate() -> None:
    """A check a day; an API server knows the bundle of the day before."""
    now, held = START, create(NAMES, START)
    bundle = held.bundle
    for _ in range(0, 3650, 5):
        now += 5 * DAY
        held = following(held, now)
        assert problem_of(held._replace(bundle=bundle), NAMES, now) == "", now
        bundle = held.bundle
        held = following(held, now + 2 * OVERLAP)
    assert len(authorities(held)) <= 3


@pytest.mark.parametrize("missed", [SERVING_VALIDITY, AUTHORITY_VALIDITY])
def test_expired_certificates_are_replaced_at_once(missed: timedelta) -> None:
    now = START + missed + DAY
    held = following(create(NAMES, START), now)
    assert problem_of(held, NAMES, now) == ""


def test_a_name_that_is_added_needs_another_certificate() -> None:
    held = create(NAMES, START)
    fresh = renewed(held, (*NAMES, "example.com"), START + DAY)
    assert fresh is not None
    assert fresh.bundle == held.bundle


class TestCertificatesOfOthers:
    """Without the authority's key, as gen-admission-secret.sh or an operator makes them."""

    def test_they_are_used_while_they_are_valid_for_the_services_name(self) -> None:
        theirs = create(("x", NAMES[-1]), START)._replace(authority_key=b"")
        assert renewed(theirs, NAMES, START + SERVING_VALIDITY * 0.9) is None
        wild = create(("*.ns.svc",), START)._replace(authority_key=b"")
        assert renewed(wild, NAMES, START) is None

    @pytest.mark.parametrize(
        ("theirs", "now"),
        [
            (create(NAMES, START), START + SERVING_VALIDITY + DAY),
            (create(("other",), START), START),
            (create(NAMES, START)._replace(certificate=b"nonsense"), START),
            (create(NAMES, START)._replace(key=create(NAMES, START).key), START),
            (create(NAMES, START)._replace(bundle=b""), START),
        ],
        ids=["expired", "another name", "no certificate", "another key", "no authority"],
    )
    def test_ours_replace_them_once_they_are_invalid(self, theirs: Certificates, now: datetime) -> None:
        theirs = theirs._replace(authority_key=b"")
        assert problem_of(theirs, NAMES, now) != ""
        ours = following(theirs, now)
        assert problem_of(ours, NAMES, now) == ""
        assert ours.bundle.endswith(theirs.bundle), "replicas that still serve theirs are trusted"


def test_a_key_of_another_certificate_is_refused_and_changes_nothing() -> None:
    now = datetime.now(UTC)
    held, other = create(NAMES, now), create(NAMES, now)
    context = server_context(held)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(CertificateError, match="matching PEM pair"):
        load_into(context, held._replace(key=other.key))
    load_into(context, other)
