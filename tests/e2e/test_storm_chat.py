"""`weir storm chat`: people who log in by tokens, talk, and come back."""

import json
import subprocess

from conftest import WEIR
from test_xmpp_clients import c2s


def test_all_get_in_and_their_contacts_hear_of_it(server, tmp_path):
    data = tmp_path / "storm.json"
    target = f"xmpp://{':'.join(map(str, c2s(server)))}"
    subprocess.run([WEIR, "storm", "chat", "--target", target, "--domain",
                    server.domain.split(":")[0], "--clients", "12", "--processes", "2",
                    "--contacts", "4", "--mechanism", "fast", "--seconds", "1", "--trips", "10",
                    "--parts", "trips,reconnect", "--json", str(data)],
                   check=True, capture_output=True)
    results = json.loads(data.read_text())["results"]
    assert results["presences_at_login"] == 12 * 4 and results["people_online"] == 24
    assert results["round_trips_missing"] == 0 and results["stanzas_refused"] == 0
    assert results["reconnect_all_ms"] > 0 and results["logins_per_s"] > 0
