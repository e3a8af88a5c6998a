//! Words: what the older tables call the states of things.

use windrow_pipelines::documents::elsewhere::Stood;

/// What a document's status says of its pages or chunks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Whole {
    Stood(Stood),
    /// Some of them failed or wait; each says it itself.
    Partial,
}

impl Whole {
    /// How one of them stood that does not say it itself.
    pub(super) fn each(&self) -> Stood {
        match self {
            Whole::Stood(stood) => stood.clone(),
            Whole::Partial => {
                let why = "the document is partial there, and nothing is said of this".to_owned();
                Stood::Failed { why }
            }
        }
    }

    pub(super) fn is_completed(&self) -> bool {
        *self == Whole::Stood(Stood::Completed)
    }
}

/// How a document stood by one of its columns; None if the word is not known.
pub(super) fn whole(word: Option<&str>, column: &str, error: Option<&str>) -> Option<Whole> {
    match word.unwrap_or("pending").trim().to_ascii_lowercase().as_str() {
        "partial" => Some(Whole::Partial),
        other => {
            let error = error.map(str::to_owned);
            let error = error.unwrap_or_else(|| format!("its {column} is {other}"));
            stood(other, Some(&error)).map(Whole::Stood)
        }
    }
}

/// How something stood by a word in any case; None if the word is not known.
pub(super) fn stood(word: &str, why: Option<&str>) -> Option<Stood> {
    let word = word.trim().to_ascii_lowercase();
    Some(match word.as_str() {
        "completed" | "complete" | "success" | "succeeded" | "done" | "ok" | "converted"
        | "indexed" | "processed" => Stood::Completed,
        // Whoever was at it there is not here.
        "pending" | "queued" | "waiting" | "new" | "processing" | "converting" | "indexing"
        | "in_progress" | "running" => Stood::Pending,
        "failed" | "failure" | "error" => {
            let why = why.filter(|why| !why.is_empty()).unwrap_or("no reason is given");
            Stood::Failed { why: why.to_owned() }
        }
        "skipped" | "disabled" => {
            Stood::Skipped { why: why.unwrap_or("it was skipped elsewhere").to_owned() }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_any_case_are_known_and_others_are_not_guessed() {
        for (word, want) in [
            ("converted", Some(Stood::Completed)),
            ("SUCCESS", Some(Stood::Completed)),
            ("converting", Some(Stood::Pending)),
            ("Pending ", Some(Stood::Pending)),
            ("failed", Some(Stood::Failed { why: "why".into() })),
            ("frobnicated", None),
        ] {
            assert_eq!(stood(word, Some("why")), want, "{word}");
        }
        assert_eq!(whole(None, "convert_status", None), Some(Whole::Stood(Stood::Pending)));
        assert_eq!(whole(Some("partial"), "index_status", None), Some(Whole::Partial));
        let failed = whole(Some("failed"), "index_status", None);
        let why = "its index_status is failed".to_owned();
        assert_eq!(failed, Some(Whole::Stood(Stood::Failed { why })));
    }
}
