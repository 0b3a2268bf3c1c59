//! A table that is changed by copying next to nothing.
//!
//! A change copies one bucket, a handful of items, and the list of buckets; everything else is shared with the
//! table before.

use std::sync::Arc;

/// How many items a bucket holds on average when the table is made.
const PER_BUCKET: usize = 4;
/// A table that has come to hold so many times what it was made for is made anew.
const OUTGROWN: usize = 8;

/// Something that is kept by a hash that spreads well.
pub(super) trait Hashed {
    /// The hash.
    fn hash(&self) -> u64;
}

#[derive(Clone)]
pub(super) struct Buckets<T> {
    buckets: Box<[Arc<Vec<T>>]>,
    len: usize,
}

impl<T: Hashed + Clone> Buckets<T> {
    /// An empty table made for so many items.
    pub(super) fn sized(items: usize) -> Self {
        let buckets = (items / PER_BUCKET).next_power_of_two();
        Self {
            buckets: (0..buckets).map(|_| Arc::default()).collect(),
            len: 0,
        }
    }

    /// Gives back what was set aside for more items.
    pub(super) fn shrink(&mut self) {
        for bucket in self.buckets.iter_mut().filter_map(Arc::get_mut) {
            bucket.shrink_to_fit();
        }
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

    /// The same with where it is: its bucket, and its place there.
    #[inline]
    pub(super) fn find_at(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<(usize, usize, &T)> {
        let bucket = self.place(hash);
        let mut items = self.buckets[bucket].iter().enumerate();
        let (place, item) = items.find(|(_, item)| is(item))?;
        Some((bucket, place, item))
    }

    /// Whether the next item makes the table anew, with other places.
    pub(super) fn outgrown(&self) -> bool {
        self.len >= self.buckets.len() * PER_BUCKET * OUTGROWN
    }

    /// All items, each with its bucket and its place there.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize, &T)> {
        let buckets = self.buckets.iter().enumerate();
        buckets.flat_map(|(bucket, items)| {
            let items = items.iter().enumerate();
            items.map(move |(place, item)| (bucket, place, item))
        })
    }

    /// How many buckets there are.
    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The items of one bucket.
    pub(super) fn bucket(&self, bucket: usize) -> &[T] {
        &self.buckets[bucket]
    }

    /// Changes the items of one bucket.
    pub(super) fn change(&mut self, bucket: usize, mut change: impl FnMut(usize, &mut T)) {
        for (place, item) in Arc::make_mut(&mut self.buckets[bucket]).iter_mut().enumerate() {
            change(place, item);
        }
    }

    /// Puts an item in place of the one that it is a newer state of.
    pub(super) fn put(&mut self, item: T, is: impl Fn(&T) -> bool) {
        if self.outgrown() {
            self.grow();
        }
        let place = self.place(item.hash());
        let bucket = Arc::make_mut(&mut self.buckets[place]);
        match bucket.iter_mut().find(|known| is(known)) {
            Some(known) => *known = item,
            None => {
                bucket.push(item);
                self.len += 1;
            }
        }
    }

    /// Takes an item out, if it is there.
    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&T) -> bool) {
        let place = self.place(hash);
        let bucket = &mut self.buckets[place];
        if bucket.iter().any(&is) {
            Arc::make_mut(bucket).retain(|item| !is(item));
            self.len -= 1;
        }
    }

    /// The bucket of a hash.
    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are meant")]
    pub(super) fn place(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn grow(&mut self) {
        let mut larger = Self::sized(self.len * 2);
        for item in self.iter() {
            let place = larger.place(item.hash());
            Arc::make_mut(&mut larger.buckets[place]).push(item.clone());
        }
        larger.len = self.len;
        *self = larger;
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
