//! Points in time as text.

/// Writes seconds since 1970 as a date and time in UTC (`2026-01-31 14:25:30`).
pub fn utc_text(unix_s: f64) -> String {
    let seconds = unix_s.floor() as i64;
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The same to the minute, for tables (`2026-01-31 14:25`).
pub fn utc_minute(unix_s: f64) -> String {
    let mut text = utc_text(unix_s);
    text.truncate(text.len() - ":30".len());
    text
}

/// The same for names of files and runs (`20260131-142530`).
pub fn utc_stamp(unix_s: f64) -> String {
    utc_text(unix_s).replace(['-', ':'], "").replace(' ', "-")
}

/// Converts days since 1970 into a date of the Gregorian calendar (Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`). Years begin in March there, so that the leap day
/// comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_their_corners() {
        for (unix_s, expected) in [
            (0.0, "1970-01-01 00:00:00"),
            (-1.0, "1969-12-31 23:59:59"),
            (951_782_400.5, "2000-02-29 00:00:00"),
            (1_703_238_845.9, "2023-12-22 09:54:05"),
            (4_107_542_399.0, "2100-02-28 23:59:59"),
            (4_107_542_400.0, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(utc_text(unix_s), expected);
        }
    }

    #[test]
    fn tables_and_names_have_formats_of_their_own() {
        assert_eq!(utc_minute(951_782_400.0), "2000-02-29 00:00");
        assert_eq!(utc_stamp(1_769_869_530.0), "20260131-142530");
    }
}
