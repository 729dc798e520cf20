"""Steps of numbers and dates, for pickles of version 0.2.0."""

from skprivate.preprocessing._public_encoders import PublicCalendar, PublicNumbers

__all__ = ["PublicCalendar", "PublicNumbers"]
