//! Vector clocks: a clock stores, for each component, up to which count the component's accesses
//! are known. The detector compares a thread's clock with the record of an earlier access. If a
//! thread's clock does not cover the count of an earlier conflicting access, the two accesses race.
//!
//! A component is a source of accesses, such as the threads of a warp, or its copies. A clock maps
//! each component to a count. If the accesses of some lanes of a component are known up to a higher
//! count than those of others, *marks* store it: with base 3 and a mark of lanes 0 to 15 at 5, lane
//! 0 is known up to 5 and lane 16 up to 3.

/// A component's id in its launch. Each cluster has a range of them.
pub(super) type Component = u32;

/// Stands for the launches before this one in the stream. Its count is 1 once `griddepcontrol.wait`
/// has returned. No access belongs to it.
pub(super) const LAUNCHES: Component = Component::MAX - 1;

/// All lanes of a warp.
pub(super) const ALL: u32 = u32::MAX;

/// Lanes of a component that are known to a higher count than the component as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    component: Component,
    lanes: u32,
    top: u32,
}

/// The components of a cluster: `first .. first + count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: Component,
    pub(super) count: u32,
}

impl Range {
    /// Returns a component's index in the range.
    fn index(self, component: Component) -> Option<usize> {
        let index = component.wrapping_sub(self.first);
        (index < self.count).then_some(index as usize)
    }
}

/// What a thread knows, or what a barrier or a memory location has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    range: Range,
    /// Sorted by component, then count; the marks of one component have disjoint lanes. This field
    /// comes before the counts because the clocks of a warp's lanes differ mostly here, and so
    /// equality is decided quickly.
    marks: Vec<Mark>,
    /// Counts of the own cluster's components. Missing ones at the end are 0.
    near: Vec<u32>,
    /// Counts of other clusters' components, sorted by component.
    far: Vec<(Component, u32)>,
}

impl Clock {
    /// Makes the empty clock that a cluster starts with.
    pub(super) fn new(range: Range) -> Clock {
        Clock { range, ..Clock::default() }
    }

    /// Returns whether the clock knows of no access.
    pub(super) fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_empty() && self.marks.is_empty()
    }

    /// Returns the count up to which all lanes of a component are known.
    pub(super) fn base(&self, component: Component) -> u32 {
        match self.range.index(component) {
            Some(index) => self.near.get(index).copied().unwrap_or(0),
            None => match self.far.binary_search_by_key(&component, |(found, _)| *found) {
                Ok(at) => self.far[at].1,
                Err(_) => 0,
            },
        }
    }

    /// Returns whether the accesses of each of `lanes` are known up to `count`.
    #[inline]
    pub(super) fn covers(&self, component: Component, lanes: u32, count: u32) -> bool {
        if self.base(component) >= count {
            return true;
        }
        lanes & !self.marked(component, count) == 0
    }

    /// Returns where the marks of a component are.
    fn marks_of(&self, component: Component) -> std::ops::Range<usize> {
        let start = self.marks.partition_point(|mark| mark.component < component);
        let all = self.marks[start..].iter().take_while(|mark| mark.component == component);
        start..start + all.count()
    }

    /// Returns the lanes of a component that marks know up to `count`.
    fn marked(&self, component: Component, count: u32) -> u32 {
        let marks = self.marks[self.marks_of(component)].iter().filter(|mark| mark.top >= count);
        marks.fold(0, |known, mark| known | mark.lanes)
    }

    /// Learns of all lanes of a component, up to `count`.
    pub(super) fn raise(&mut self, component: Component, count: u32) {
        self.raise_base(component, count);
        let range = self.marks_of(component);
        let old = self.marks[range.clone()].iter().take_while(|mark| mark.top <= count).count();
        self.marks.drain(range.start..range.start + old);
    }

    fn raise_base(&mut self, component: Component, count: u32) {
        if count == 0 {
            return;
        }
        match self.range.index(component) {
            Some(index) => {
                if self.near.len() <= index {
                    self.near.resize(index + 1, 0);
                }
                self.near[index] = self.near[index].max(count);
            }
            None => match self.far.binary_search_by_key(&component, |(found, _)| *found) {
                Ok(at) => self.far[at].1 = self.far[at].1.max(count),
                Err(at) => self.far.insert(at, (component, count)),
            },
        }
    }

    /// Learns of some lanes of a component, up to `count`.
    pub(super) fn raise_lanes(&mut self, component: Component, lanes: u32, count: u32) {
        if lanes == ALL {
            return self.raise(component, count);
        }
        if self.covers(component, lanes, count) {
            return;
        }
        let (mut new, mut union, mut lowest, mut emptied) = (lanes, 0, count, false);
        let range = self.marks_of(component);
        for mark in &mut self.marks[range.clone()] {
            if mark.top >= count {
                new &= !mark.lanes;
            } else {
                mark.lanes &= !lanes;
            }
            match mark.lanes {
                0 => emptied = true,
                _ => lowest = lowest.min(mark.top),
            }
            union |= mark.lanes;
        }
        let at = range.start + self.marks[range].partition_point(|mark| mark.top < count);
        match self.marks.get_mut(at) {
            Some(mark) if (mark.component, mark.top) == (component, count) => mark.lanes |= new,
            _ => self.marks.insert(at, Mark { component, lanes: new, top: count }),
        }
        if emptied {
            self.marks.retain(|mark| mark.lanes != 0);
        }
        // The marks of a component are disjoint. If they cover all lanes, the lowest of them holds
        // for the component as a whole.
        if union | new == ALL {
            self.raise(component, lowest);
        }
    }

    /// Learns everything that `other` knows.
    pub(super) fn join(&mut self, other: &Clock) {
        self.join_if(other, |_| true);
    }

    /// Learns what `other` knows of the components that `chosen` accepts.
    pub(super) fn join_if(&mut self, other: &Clock, chosen: impl Fn(Component) -> bool) {
        if self.range == other.range {
            if self.near.len() < other.near.len() {
                self.near.resize(other.near.len(), 0);
            }
            let first = self.range.first;
            for (index, (count, found)) in self.near.iter_mut().zip(&other.near).enumerate() {
                if *found > *count && chosen(first + index as u32) {
                    *count = *found;
                }
            }
        } else {
            let first = other.range.first;
            for (index, count) in other.near.iter().enumerate() {
                if chosen(first + index as u32) {
                    self.raise_base(first + index as u32, *count);
                }
            }
        }
        for (component, count) in &other.far {
            if chosen(*component) {
                self.raise_base(*component, *count);
            }
        }
        if !self.marks.is_empty() {
            let mut marks = std::mem::take(&mut self.marks);
            marks.retain(|mark| mark.top > self.base(mark.component));
            self.marks = marks;
        }
        for mark in other.marks.iter().filter(|mark| chosen(mark.component)) {
            self.raise_lanes(mark.component, mark.lanes, mark.top);
        }
    }

    /// Returns the count of each lane of a component.
    fn lanes(&self, component: Component) -> [u32; 32] {
        let mut counts = [self.base(component); 32];
        for mark in &self.marks[self.marks_of(component)] {
            for (lane, count) in counts.iter_mut().enumerate() {
                if mark.lanes >> lane & 1 == 1 {
                    *count = mark.top;
                }
            }
        }
        counts
    }

    /// Returns what both clocks know: for each component and lane, the lower of the two counts.
    pub(super) fn meet(&self, other: &Clock) -> Clock {
        let mut both = Clock::new(self.range);
        let near =
            (self.range.first..).zip(&self.near).map(|(component, count)| (component, *count));
        for (component, count) in near.chain(self.far.iter().copied()) {
            both.raise_base(component, count.min(other.base(component)));
        }
        for mark in self.marks.iter().chain(&other.marks) {
            let counts = self.lanes(mark.component).into_iter().zip(other.lanes(mark.component));
            for (lane, (a, b)) in counts.enumerate() {
                both.raise_lanes(mark.component, 1 << lane, a.min(b));
            }
        }
        both
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RANGES: [Range; 2] = [Range { first: 0, count: 4 }, Range { first: 4, count: 4 }];

    /// The count of each lane of each component.
    type Plain = BTreeMap<(Component, usize), u32>;

    fn plain(clock: &Clock) -> Plain {
        let count = |component, lane: usize| {
            (0..=12).rev().find(|count| clock.covers(component, 1 << lane, *count)).unwrap_or(0)
        };
        (0..8)
            .flat_map(|component| (0..32).map(move |lane| (component, lane)))
            .map(|(component, lane)| ((component, lane), count(component, lane)))
            .collect()
    }

    fn learned() -> impl Strategy<Value = (Clock, Plain)> {
        let lanes = prop_oneof![Just(ALL), Just(0xffff), Just(0xffff_0000), any::<u32>(), Just(1)];
        let event = (0u32..8, lanes, 1u32..12);
        (0usize..2, prop::collection::vec(event, 0..12)).prop_map(|(range, events)| {
            let (mut clock, mut all) = (Clock::new(RANGES[range]), plain(&Clock::default()));
            for (component, lanes, count) in events {
                clock.raise_lanes(component, lanes, count);
                for lane in (0..32).filter(|lane| lanes >> lane & 1 == 1) {
                    let found = all.entry((component, lane)).or_default();
                    *found = count.max(*found);
                }
            }
            (clock, all)
        })
    }

    proptest! {
        /// A clock is a map from components and lanes to counts, a join is the maximum, a meet the
        /// minimum.
        #[test]
        fn clocks_are_maps_to_counts(a in learned(), b in learned()) {
            let ((mut a, of_a), (b, of_b)) = (a, b);
            prop_assert_eq!(plain(&a), of_a.clone());
            let min_of = |key: &(Component, usize)| of_a[key].min(of_b[key]);
            let expected: Plain = of_a.keys().map(|key| (*key, min_of(key))).collect();
            prop_assert_eq!(plain(&a.meet(&b)), expected);
            a.join(&b);
            let max_of = |key: &(Component, usize)| of_a[key].max(of_b[key]);
            let expected: Plain = of_a.keys().map(|key| (*key, max_of(key))).collect();
            prop_assert_eq!(plain(&a), expected);
            // The marks of a component are disjoint and above its base.
            for (i, mark) in a.marks.iter().enumerate() {
                prop_assert!(mark.top > a.base(mark.component) && mark.lanes != 0);
                let others = a.marks[..i].iter().filter(|other| other.component == mark.component);
                prop_assert!(others.into_iter().all(|other| other.lanes & mark.lanes == 0));
            }
        }
    }
}
