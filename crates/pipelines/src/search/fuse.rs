//! Fusing: one ranking made of several.
//!
//! Decides by rank alone (reciprocal rank fusion), because the scores of words and of vectors have
//! no common measure. What each list said is kept beside the sum, so that a result can be
//! explained. Sees ids and scores, and never what they stand for.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;

/// How little the first ranks are worth more than the next: at 60 the first place of one list is
/// worth less than the tenth places of two.
pub const RANK_OFFSET: u32 = 60;

/// One ranking, best first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct List<'a, Id> {
    /// Who made it, such as `words` or `vectors`.
    pub name: &'static str,
    /// What it found, with the score that put it there. An id that comes again counts once.
    pub found: &'a [(Id, f32)],
}

/// Something found, by one list or several.
#[derive(Clone, PartialEq, Debug)]
pub struct Fused<Id> {
    pub id: Id,
    /// The sum of what its parts are worth.
    pub score: f64,
    /// What each list said of it, in the order of the lists.
    pub parts: Vec<Part>,
}

/// What one list said.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    pub list: &'static str,
    /// From 1.
    pub rank: u32,
    /// As the list has it.
    pub score: f32,
    /// What this rank adds to the sum.
    pub worth: f64,
}

/// Makes one ranking of all lists and gives its best. Of two that are worth the same, the one with
/// the smaller id comes first, so that the same lists always give the same ranking.
pub fn fuse<Id: Clone + Ord + Hash>(lists: &[List<'_, Id>], limit: usize) -> Vec<Fused<Id>> {
    let mut places: HashMap<&Id, usize> = HashMap::new();
    let mut fused: Vec<Fused<Id>> = Vec::new();
    for (nth, list) in lists.iter().enumerate() {
        let mut rank = 0;
        // By list, not by its name: two may be called the same.
        let mut counted = vec![false; fused.len()];
        for (id, score) in list.found {
            let place = *places.entry(id).or_insert_with(|| {
                fused.push(Fused { id: id.clone(), score: 0.0, parts: Vec::new() });
                fused.len() - 1
            });
            counted.resize(fused.len(), false);
            if std::mem::replace(&mut counted[place], true) {
                continue;
            }
            rank += 1;
            let worth = worth(rank);
            let one = &mut fused[place];
            one.score += worth;
            one.parts.push(Part { list: lists[nth].name, rank, score: *score, worth });
        }
    }
    fused.sort_unstable_by(better);
    fused.truncate(limit);
    fused
}

fn worth(rank: u32) -> f64 {
    1.0 / (f64::from(RANK_OFFSET) + f64::from(rank))
}

fn better<Id: Ord>(one: &Fused<Id>, other: &Fused<Id>) -> Ordering {
    other.score.total_cmp(&one.score).then_with(|| one.id.cmp(&other.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fuses lists written as letters, best first, and gives the letters that come out.
    fn order(lists: &[&str], limit: usize) -> String {
        let lists: Vec<Vec<(char, f32)>> =
            lists.iter().map(|list| list.chars().map(|letter| (letter, 0.5)).collect()).collect();
        let lists: Vec<_> = lists.iter().map(|found| List { name: "letters", found }).collect();
        fuse(&lists, limit).iter().map(|fused| fused.id).collect()
    }

    #[test]
    fn ranks_of_all_lists_are_summed() {
        for (lists, expected) in [
            (&["abc"][..], "abc"),
            (&["abc", "abc"], "abc"),
            // Second in both is worth more than first in one.
            (&["ab", "cb"], "bac"),
            // Two tenth places are worth more than one first place.
            (&["012345678x", "9ABCDEFGHx"], "x091A2B3C4D5E6F7G8H"),
            (&["abcd", "dcba"], "adbc"),
            (&["", "ba"], "ba"),
            (&["", ""], ""),
            (&[], ""),
        ] {
            assert_eq!(order(lists, 100), expected, "{lists:?}");
        }
    }

    #[test]
    fn of_equals_the_smaller_id_is_first_whatever_the_order_of_the_lists() {
        for lists in [["ab", "ba"], ["ba", "ab"]] {
            assert_eq!(order(&lists, 9), "ab", "{lists:?}");
        }
        assert_eq!(order(&["z", "y", "x"], 9), "xyz");
    }

    #[test]
    fn an_id_that_a_list_has_twice_counts_once_and_takes_no_rank() {
        assert_eq!(order(&["aab", "b"], 9), "ba");
        let twice = [('a', 0.9), ('a', 0.8), ('b', 0.7)];
        let fused = fuse(&[List { name: "words", found: &twice }], 9);
        let ranks: Vec<_> = fused.iter().map(|fused| (fused.id, fused.parts[0].rank)).collect();
        assert_eq!(ranks, [('a', 1), ('b', 2)]);
        assert_eq!(fused[0].parts.len(), 1);
    }

    #[test]
    fn no_more_come_out_than_were_asked_for() {
        for (limit, expected) in [(0, ""), (1, "b"), (2, "ba"), (3, "bac"), (4, "bac")] {
            assert_eq!(order(&["ab", "cb"], limit), expected, "{limit}");
        }
    }

    #[test]
    fn what_each_list_said_is_kept() {
        let words = [("x", 7.5), ("y", 3.25)];
        let vectors = [("y", 0.75)];
        let lists = [
            List { name: "words", found: &words[..] },
            List { name: "vectors", found: &vectors[..] },
        ];
        let fused = fuse(&lists, 9);
        let (first, second) = (1.0 / 61.0, 1.0 / 62.0);
        let of_words = Part { list: "words", rank: 2, score: 3.25, worth: second };
        let of_vectors = Part { list: "vectors", rank: 1, score: 0.75, worth: first };
        let y = Fused { id: "y", score: second + first, parts: vec![of_words, of_vectors] };
        let of_words = Part { list: "words", rank: 1, score: 7.5, worth: first };
        let x = Fused { id: "x", score: first, parts: vec![of_words] };
        assert_eq!(fused, [y, x]);
    }
}
