//! Pages that end after so many bytes as well as after so many rows: a body may have a megabyte, and a thousand of them
//! must not come into memory at once.

use sqlx::Row;
use sqlx::any::AnyRow;

/// How many bytes of bodies a page has at most, unless its first row alone has more.
pub const MAX_PAGE_BYTES: i64 = 4 << 20;

/// Some rows, and whether there are others after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// True if there may be more after the last.
    pub more: bool,
}

/// Where a page ends.
pub(super) struct Cut<'r> {
    /// Its last row.
    pub(super) last: &'r AnyRow,
    /// True if rows come after it.
    pub(super) more: bool,
}

impl<'r> Cut<'r> {
    /// Cuts a page of at most `limit` rows out of rows whose first column is how many bytes each has. `None` without rows.
    pub(super) fn of(rows: &'r [AnyRow], limit: i64) -> Result<Option<Self>, sqlx::Error> {
        let (mut last, mut bytes) = (None, 0_i64);
        for row in rows {
            bytes = bytes.saturating_add(row.try_get::<i64, _>(0)?);
            if let Some(last) = last
                && bytes > MAX_PAGE_BYTES
            {
                return Ok(Some(Self { last, more: true }));
            }
            last = Some(row);
        }
        let more = i64::try_from(rows.len()).is_ok_and(|rows| rows >= limit);
        Ok(last.map(|last| Self { last, more }))
    }
}

impl<T> Page<T> {
    pub(super) fn empty() -> Self {
        Self {
            rows: Vec::new(),
            more: false,
        }
    }
}
