"""The campaign: each row with its count, and the tests that carry it out. docs/reliability.md is generated from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Tests:
    """Tests of one file by name. only: a pattern that the parameters of a test must hold; `""`: all."""

    file: str
    names: tuple[str, ...]
    only: str = ""

    def hold(self, nodeid: str) -> bool:
        """Return whether a test that pytest collected is one of them."""
        file, _, name = nodeid.partition("::")
        function, _, parameters = name.partition("[")
        return file == self.file and function in self.names and bool(re.search(self.only, parameters))


@dataclass(frozen=True)
class Part:
    """A count that a row must reach. counted: the attempts that its tests report (`tried`), or the tests that passed."""

    what: str
    least: int
    tests: tuple[Tests, ...]
    counted: Literal["tries", "tests"] = "tries"

    def holds(self, nodeid: str) -> bool:
        """Return whether a test counts here."""
        return any(each.hold(nodeid) for each in self.tests)


@dataclass(frozen=True)
class Row:
    """One line of the campaign. holds: the invariants; needs: what a machine must have; spread: several workers may share it."""

    id: str
    what: str
    holds: str
    parts: tuple[Part, ...] = ()
    needs: str = ""
    spread: bool = True


EVERY_WRITE = ("tests/crash/test_every_write.py", ("test_the_end_is_the_same_wherever_it_strikes",))
KILLED_UPS = (
    Tests("tests/crash/test_sigkill.py", ("test_a_killed_up_is_started_again_and_comes_to_the_same_end",)),
    Tests("tests/crash/test_sync_kills.py", ("test_a_sync_may_be_killed_at_every_git_command",)),
    Tests("tests/crash/test_write_back_kills.py", ("test_an_edit", "test_a_deletion_and_a_creation")),
    Tests("tests/crash/test_source_write_back_kills.py", ("test_an_edit", "test_a_deletion")),
)
MIGRATIONS = ("tests/crash/test_migration_kills.py", ("test_the_old_or_the_new_and_nothing_between",))
WATCHES = "tests/crash/test_watches.py"
DAMAGE = "tests/scenario/engines/test_state_damage.py"
MACHINE = "tests/crash/test_state_machine.py"
CANARIES = "tests/security/test_secret_canaries.py"
UPLOADS = "tests/crash/test_uploads.py"
TOKENS, ISSUERS = "tests/security/test_foreign_tokens.py", "tests/security/test_trusted_issuers.py"
OUTBOUND = "tests/security/test_outbound.py"
PACKAGES = "tests/security/test_packages.py"
FUZZED = "tests/security/test_schemathesis.py"
TENANCY = "tests/cluster/test_tenancy.py"

_ROWS = (
    Row(
        "R1",
        "crash at every write, before and after it commits: create, upgrade, failed migration, delete, rotation",
        "I1 to I4, I8",
        (
            Part("crashes", 300, (Tests(*EVERY_WRITE, only="CRASH"),)),
            Part("SIGKILLs of `up`", 60, KILLED_UPS, counted="tests"),
        ),
    ),
    Row(
        "R2",
        "response lost after commit, 409, 429 and 503 at each write",
        "I2 to I4, I8",
        (Part("faults", 200, (Tests(*EVERY_WRITE, only="CONFLICT|TRANSIENT|TOO_MANY|ANSWER_LOST"),)),),
    ),
    Row(
        "R3",
        "stale lists and watches across a restart; delete and create again under the same name",
        "I3",
        (Part("restarts", 60, (Tests(WATCHES, ("test_a_restart_that_sees_an_older_state_makes_no_engine_again",)),)),),
    ),
    Row(
        "R3b",
        "a watch that lags 10 to 60 s behind our own writes",
        "I3",
        (Part("lagging watches", 50, (Tests(WATCHES, ("test_a_watch_that_lags_makes_one_engine_each",)),)),),
        spread=False,
    ),
    Row(
        "R4",
        "watch cut, duplicated, 410, stalled, at each event",
        "I2, I8",
        (Part("faults of watches", 120, (Tests(WATCHES, ("test_the_end_is_the_same_whatever_befalls_a_watch_at_any_event",)),)),),
    ),
    Row(
        "R5",
        "API server and etcd killed, stopped, frozen; etcd out of space",
        "I1 to I3",
        (
            Part(
                "outages",
                17,
                (Tests("tests/cluster/test_outages.py", ("test_what_was_acknowledged_comes_about_after_an_outage",)),),
            ),
        ),
        needs="a real API server",
        spread=False,
    ),
    Row(
        "R6",
        "two operators at once; clocks an hour apart",
        "I3, I8",
        (
            Part(
                "runs",
                20,
                (Tests("tests/crash/test_two_operators.py", ("test_two_operators_at_once_come_to_the_end_of_one",)),),
            ),
        ),
    ),
    Row(
        "R7",
        "engine: time-out, reset, 500, slow, success with the reply lost, garbage",
        "I2 to I4",
        (
            Part(
                "faults of engines",
                80,
                (Tests("tests/crash/test_engine_faults.py", ("test_the_end_is_the_same_whatever_befalls_a_request",)),),
            ),
        ),
    ),
    Row(
        "R8",
        "migration killed at each statement",
        "the old or the new revision, nothing between",
        (
            Part("kills on SQLite", 150, (Tests(*MIGRATIONS, only="^sqlite"),)),
            Part("kills on PostgreSQL", 150, (Tests(*MIGRATIONS, only="^postgresql"),)),
        ),
        needs="PostgreSQL",
    ),
    Row(
        "R9",
        "upload killed at 40 offsets; disk full; the same package 20 times at once",
        "nothing partial visible, I4",
        (
            Part(
                "broken uploads",
                100,
                (
                    Tests(
                        UPLOADS,
                        (
                            "test_a_client_that_goes_away_at_any_offset_leaves_nothing",
                            "test_a_body_that_ends_at_any_offset_is_refused_and_leaves_nothing",
                            "test_a_disk_that_is_full_at_any_call_is_503_and_keeps_nothing",
                            "test_the_platforms_store_has_all_or_nothing_of_a_package_that_the_full_disk_refused",
                            "test_an_engine_that_is_killed_during_an_upload_has_all_of_it_or_nothing",
                        ),
                    ),
                ),
            ),
            Part(
                "uploads of one package at once",
                40,
                (
                    Tests(
                        UPLOADS,
                        (
                            "test_the_same_package_twenty_times_at_once_is_stored_once",
                            "test_the_platforms_store_takes_the_same_package_twenty_times_at_once",
                        ),
                    ),
                ),
            ),
        ),
    ),
    Row(
        "R10",
        "hypothesis state machine with faults as rules",
        "I1 to I4",
        (Part("steps", 4_500, (Tests(MACHINE, ("test_what_was_declared_comes_about_whatever_happens",)),)),),
        spread=False,
    ),
    Row(
        "R11",
        "embedded store: 8 clients, compare-and-swap, kills",
        "linearizable per key, I1",
        (
            Part(
                "operations",
                20_000,
                (
                    Tests(
                        "tests/crash/test_linearizable.py",
                        ("test_what_clients_of_a_store_that_is_killed_were_told_fits_one_order",),
                    ),
                ),
            ),
        ),
        spread=False,
    ),
    Row(
        "R12",
        "each safety control switched off in turn",
        "the campaign fails each time",
        (
            Part(
                "controls seen to matter",
                24,
                (
                    Tests(
                        "tests/security/test_controls.py",
                        (
                            "test_s3_forged_tokens",
                            "test_s4_unknown_keys",
                            "test_s5_addresses",
                            "test_s6_hostile_packages",
                            "test_s9_slow_clients",
                            "test_r9_uploads",
                        ),
                        # With nothing switched off the same check holds: that is no control.
                        only="^(?!nothing|as it is)",
                    ),
                    Tests("tests/crash/test_engine_faults.py", ("test_without_a_control_it_fails",), only="^ours"),
                    Tests(
                        "tests/crash/test_controls.py",
                        (
                            "test_r1_without_the_finalizer_engines_are_left_behind",
                            "test_r2_without_another_try_it_does_not_converge",
                            "test_r3_without_the_read_before_the_first_effect_an_engine_is_made_again",
                            "test_r4_without_a_new_list_a_watch_that_expired_ends_it",
                            "test_r4_without_following_again_a_watch_that_was_cut_ends_it",
                            "test_r8_without_one_transaction_a_migration_stops_in_between",
                            "test_r11_without_the_precondition_a_write_is_lost",
                        ),
                    ),
                    Tests(CANARIES, ("test_s10_without_the_sealing_of_the_store_a_secret_is_found",)),
                    Tests(MACHINE, ("test_r10_without_a_control_it_fails",)),
                    Tests("tests/security/test_tenancy_matrix.py", ("test_s1_without_a_tenants_scope_others_are_seen",)),
                ),
                counted="tests",
            ),
        ),
    ),
    Row(
        "R13",
        "each file of a state missing, empty, cut, overwritten, an older copy or another platform's; stopped and running",
        "an error with its way out, or all rows; nothing is written over what is left",
        (Part("harmed states", 56, (Tests(DAMAGE, ("test_no_harm_ends_in_ready_with_fewer_rows",)),)),),
    ),
    Row(
        "S1",
        "endpoint x role x {own, foreign, absent}, from the OpenAPI",
        "I5, foreign equals absent",
        (
            Part(
                "requests",
                1000,
                (Tests("tests/security/test_tenancy_matrix.py", ("test_no_endpoint_tells_any_role_of_another_tenant",)),),
            ),
        ),
    ),
    Row(
        "S2",
        "specs that point at another tenant's objects; namespace and label spoofing",
        "refused",
        (
            Part(
                "attempts of a tenant's admin",
                60,
                (
                    Tests(
                        TENANCY,
                        (
                            "test_a_tenants_admin_cannot",
                            "test_a_tenants_admin_cannot_act_as",
                            "test_nothing_can_be_declared_that_points_at",
                            "test_a_name_that_is_a_path_leads_nowhere",
                        ),
                    ),
                ),
                counted="tests",
            ),
        ),
        needs="a real API server",
    ),
    Row(
        "S3",
        "forged tokens: none, HS/RS, kid paths, jku, crit, aud, iss, exp, the same `sub` from two issuers",
        "401, no outbound request",
        (
            Part(
                "tokens at an engine",
                80,
                (
                    Tests(
                        TOKENS,
                        (
                            "test_each_forged_token_is_refused_and_nothing_it_names_is_asked",
                            "test_one_subject_of_two_issuers_is_two_identities",
                            "test_each_forged_id_token_at_the_callback_opens_no_session",
                        ),
                    ),
                ),
            ),
            Part(
                "tokens at the facade",
                80,
                (Tests(ISSUERS, ("test_each_forged_token_is_refused_by_the_facade_and_nothing_it_names_is_asked",)),),
            ),
        ),
    ),
    Row(
        "S4",
        "random kid, hostile JWKS",
        "at most one fetch in 30 s an issuer",
        (
            Part("unknown keys", 1000, (Tests(TOKENS, ("test_a_thousand_unknown_keys_make_one_look_in_thirty_seconds",)),)),
            Part(
                "hostile documents",
                20,
                (
                    Tests(
                        TOKENS,
                        (
                            "test_a_hostile_discovery_document_makes_the_issuer_unknown",
                            "test_a_key_that_may_not_verify_is_left_out_and_the_others_stay",
                        ),
                    ),
                ),
            ),
        ),
    ),
    Row(
        "S5",
        "SSRF through issuer, jwks_uri, package URL: loopback, link-local, mapped, redirect, rebinding",
        "no connection",
        (
            Part(
                "addresses",
                90,
                (
                    Tests(
                        OUTBOUND,
                        (
                            "test_no_hostile_url_leads_to_a_connection",
                            "test_a_name_that_resolves_anew_is_judged_by_the_address_that_is_connected_to",
                        ),
                    ),
                ),
            ),
            Part(
                "addresses of packages, redirects and token realms",
                90,
                (Tests("tests/security/test_fetched_package_addresses.py", ("test_no_hostile_url_leads_to_a_connection",)),),
            ),
        ),
    ),
    Row(
        "S6",
        "hostile packages: traversal, links, bombs, overlaps, header lies, case collisions",
        "I7",
        (
            Part("packages", 150, (Tests(PACKAGES, ("test_a_hostile_package_is_refused",)),), counted="tests"),
            Part(
                "mutations",
                2000,
                (Tests(PACKAGES, ("test_of_a_package_with_bytes_changed_nothing_lands_outside_its_folder",)),),
            ),
        ),
    ),
    Row(
        "S7",
        "hostile YAML and Git: links, submodules, alias bombs, tags, duplicate keys",
        "I7, the last good state stays",
        (
            Part(
                "pushes",
                80,
                (Tests("tests/security/test_git.py", ("test_a_push_of_what_is_hostile_is_refused_with_its_file",)),),
                counted="tests",
            ),
        ),
    ),
    Row(
        "S8",
        "schemathesis, stateful, positive and negative",
        "no 5xx",
        (
            Part(
                "requests",
                20_000,
                (Tests(FUZZED, ("test_no_request_of_schemathesis_is_answered_by_a_5xx_or_with_a_secret",)),),
            ),
        ),
    ),
    Row(
        "S9",
        "200 slow clients, slow bodies, 10,000 parts",
        "closed within 15 s, I7",
        (
            Part(
                "slow clients",
                200,
                (
                    Tests(
                        "tests/security/test_slow_clients.py",
                        ("test_two_hundred_dawdlers_are_closed_within_fifteen_seconds_as_it_is_shipped",),
                    ),
                ),
            ),
        ),
        spread=False,
    ),
    Row(
        "S10",
        "canaries for secrets through R1, R2, R7; S8 searches its answers for others",
        "I6",
        (
            Part("canaries through faults of writes", 30, (Tests(CANARIES, ("test_no_secret_shows_after_a_fault_of_a_write",)),)),
            Part(
                "canaries through faults of engines", 6, (Tests(CANARIES, ("test_no_secret_shows_after_a_fault_of_its_engine",)),)
            ),
        ),
    ),
)
ROWS: dict[str, Row] = {row.id: row for row in _ROWS}
"""By id, in the order of the table."""
