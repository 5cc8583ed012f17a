"""Detection of the container that the gate runs in."""

from pathlib import Path

import pytest

from evalgate.agents.containers import ownership

ID = "de70f3b119c29b4ae578417568062b51e3a8946a8814deb4350c5f643767968d"


@pytest.mark.parametrize(
    ("mounted", "found"),
    [
        (f"135 117 254:0 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/vda rw", ID),
        (f"136 117 254:0 /containers/{ID}/resolv.conf /etc/resolv.conf rw - ext4 /dev/vda rw", ID),
        (f"521 29 0:50 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw", ""),
        ("29 1 254:0 / / rw - ext4 /dev/vda rw", ""),
    ],
)
def test_own_container_is_found_by_its_mounts(
    mounted: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"1 0 0:1 / /proc rw - proc proc rw\n{mounted}\n")
    assert ownership.read_container_id() == found
