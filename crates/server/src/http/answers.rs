//! Answers in the order of the questions: some could not be read, the others are asked.

use windrow_core::Refusal;
use windrow_wire::answer::{Called, Each};

/// Questions that were read, and where those belong that were not.
pub(super) struct Answers<T> {
    asked: Vec<T>,
    refused: Vec<(Called, Option<Refusal>)>,
}

impl<T> Answers<T> {
    pub(super) fn new<Q>(
        questions: Vec<Q>,
        called: impl Fn(&Q) -> Called,
        mut read: impl FnMut(Q) -> Result<T, Refusal>,
    ) -> Answers<T> {
        let mut answers = Answers { asked: Vec::new(), refused: Vec::new() };
        for question in questions {
            let called = called(&question);
            match read(question) {
                Ok(asked) => {
                    answers.asked.push(asked);
                    answers.refused.push((called, None));
                }
                Err(refusal) => answers.refused.push((called, Some(refusal))),
            }
        }
        answers
    }

    /// What is to be asked.
    pub(super) fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.asked)
    }

    /// All answers, given those to what was asked.
    pub(super) fn with<C, W: From<C>>(self, answers: Vec<Result<C, Refusal>>) -> Vec<Each<W>> {
        let mut answers = answers.into_iter();
        let each = self.refused.into_iter().enumerate().map(|(index, (called, refused))| {
            let answer = match refused {
                Some(refusal) => Err(refusal),
                None => answers.next().unwrap_or(Err(Refusal::Internal)),
            };
            Each::of(answer, index, called)
        });
        each.collect()
    }
}
