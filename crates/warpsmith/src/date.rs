//! Calendar dates from seconds since 1970, in UTC. Two formats do not need a crate.

/// Formats for names of files and runs (`20260131-142530`).
pub fn compact(unix_s: f64) -> String {
    let (year, month, day, hour, minute, second) = civil(unix_s);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Formats for people (`2026-01-31 14:25`).
pub fn readable(unix_s: f64) -> String {
    let (year, month, day, hour, minute, _) = civil(unix_s);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Days to a date by counting in eras of 400 years that begin on 1 March, so that the leap day is
/// the last of its year.
fn civil(unix_s: f64) -> (i64, i64, i64, i64, i64, i64) {
    let seconds = unix_s as i64;
    let days = seconds.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let of_day = seconds.rem_euclid(86_400);
    (year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(readable(0.0), "1970-01-01 00:00");
        assert_eq!(readable(951_782_400.0), "2000-02-29 00:00");
        assert_eq!(compact(1_769_869_530.0), "20260131-142530");
    }
}
