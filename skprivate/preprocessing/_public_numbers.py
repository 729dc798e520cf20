"""Steps of numbers and dates, for earlier pickles."""

from skprivate.preprocessing._public_encoders import PublicCalendar, PublicNumbers

__all__ = ["PublicCalendar", "PublicNumbers"]
