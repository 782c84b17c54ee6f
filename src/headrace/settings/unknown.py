"""The answer to a setting that does not exist: its name, and the one that was probably meant."""

from collections.abc import Iterable

from headrace.settings.definition import SettingError


def unknown_setting(name: str, known: Iterable[str], what: str) -> SettingError:
    """An error that names the setting and the nearest one that `what` (topic, broker, group) has."""
    import difflib  # only needed once something is wrong, and not cheap to import

    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return SettingError(name, f"there is no {what} setting of this name{hint}")
