//! A table that is changed by copying next to nothing.
//!
//! A change copies one bucket, a handful of items, and the list of buckets; everything else is shared with the
//! table before.

use std::sync::Arc;

/// How many items a bucket holds on average when the table is made.
const PER_BUCKET: usize = 4;
/// A table that has come to hold so many times what it was made for is made anew.
const OUTGROWN: usize = 2;

/// Something that is kept by a hash that spreads well.
pub(super) trait Hashed {
    /// The hash.
    fn hash(&self) -> u64;
}

#[derive(Clone)]
pub(super) struct Buckets<T> {
    buckets: Box<[Arc<[T]>]>,
    len: usize,
}

impl<T: Hashed + Clone> Buckets<T> {
    /// An empty table made for so many items.
    pub(super) fn sized(items: usize) -> Self {
        let buckets = (items / PER_BUCKET).next_power_of_two();
        Self {
            buckets: vec![Arc::default(); buckets].into(),
            len: 0,
        }
    }

    /// A table of some items, made for so many, of which no two are the same.
    pub(super) fn of(items: impl Iterator<Item = T>, room: usize) -> Self {
        let mut table = Self::sized(room);
        let mut filled: Vec<Vec<T>> = table.buckets.iter().map(|_| Vec::new()).collect();
        for item in items {
            filled[table.place(item.hash())].push(item);
            table.len += 1;
        }
        for (bucket, items) in table.buckets.iter_mut().zip(filled) {
            if !items.is_empty() {
                *bucket = items.into();
            }
        }
        table
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().flat_map(|bucket| bucket.iter())
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        self.buckets[self.place(hash)].iter().find(|item| is(item))
    }

    /// Puts an item in place of the one that it is a newer state of.
    pub(super) fn put(&mut self, item: T, is: impl Fn(&T) -> bool) {
        if self.len >= self.buckets.len() * PER_BUCKET * OUTGROWN {
            *self = Self::of(self.iter().cloned(), self.len * 2);
        }
        let place = self.place(item.hash());
        let bucket = &self.buckets[place];
        let others = bucket.iter().filter(|known| !is(known)).cloned();
        let items: Arc<[T]> = others.chain([item]).collect();
        self.len = self.len + items.len() - bucket.len();
        self.buckets[place] = items;
    }

    /// The same with some items as they are now. Buckets with none of these are shared.
    pub(super) fn with(&self, now: impl Fn(&T) -> Option<T>) -> Self {
        let change = |bucket: &Arc<[T]>| {
            let states: Vec<Option<T>> = bucket.iter().map(&now).collect();
            if states.iter().all(Option::is_none) {
                return bucket.clone();
            }
            let items = states.into_iter().zip(bucket.iter());
            items
                .map(|(state, item)| state.unwrap_or_else(|| item.clone()))
                .collect()
        };
        Self {
            buckets: self.buckets.iter().map(change).collect(),
            len: self.len,
        }
    }

    /// Takes an item out, if it is there.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&T) -> bool) {
        let place = self.place(hash);
        let bucket = &mut self.buckets[place];
        if bucket.iter().any(&is) {
            *bucket = bucket.iter().filter(|item| !is(item)).cloned().collect();
            self.len -= 1;
        }
    }

    /// The bucket of a hash.
    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are meant")]
    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Item(u64, u64);

    impl Hashed for Item {
        fn hash(&self) -> u64 {
            self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20)
        }
    }

    fn find(table: &Buckets<Item>, key: u64) -> Option<u64> {
        let found = table.find(Item(key, 0).hash(), |item| item.0 == key);
        found.map(|item| item.1)
    }

    #[test]
    fn a_change_leaves_the_table_before_as_it_was() {
        let mut table = Buckets::sized(0);
        for key in 0..1000 {
            table.put(Item(key, 1), |item: &Item| item.0 == key);
        }
        let before = table.clone();
        table.put(Item(7, 2), |item| item.0 == 7);
        table.remove(Item(8, 0).hash(), |item| item.0 == 8);
        assert_eq!(
            (find(&table, 7), find(&table, 8), table.len()),
            (Some(2), None, 999)
        );
        assert_eq!(
            (find(&before, 7), find(&before, 8), before.len()),
            (Some(1), Some(1), 1000)
        );
        assert!(
            (0..1000)
                .filter(|key| *key != 8)
                .all(|key| find(&table, key).is_some())
        );
        let shared = before.buckets.iter().zip(&table.buckets);
        let copied = shared.filter(|(one, other)| !Arc::ptr_eq(one, other)).count();
        assert!(copied <= 2, "{copied} buckets were copied");
    }
}
