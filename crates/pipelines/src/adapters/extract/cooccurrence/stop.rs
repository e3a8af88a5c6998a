//! Words that no text is about: articles, prepositions and the like, in the languages that most
//! documents are written in.

/// Whether a word, in whatever case, is one of them.
pub(super) fn is_stop(word: &str) -> bool {
    word.len() <= LONGEST && STOP.binary_search(&&*word.to_lowercase()).is_ok()
}

const LONGEST: usize = 12;

#[rustfmt::skip]
const STOP: [&str; 273] = [
    "a", "aber", "about", "above", "after", "again", "against", "all", "als", "also", "although",
    "am", "an", "and", "another", "any", "are", "as", "at", "auch", "auf", "aus", "avec", "be",
    "because", "been", "before", "bei", "being", "below", "between", "bis", "both", "but", "by",
    "can", "cannot", "ce", "ces", "cette", "con", "could", "dans", "das", "dass", "dem", "den",
    "der", "des", "did", "die", "do", "does", "doing", "down", "durch", "during", "each", "ein",
    "eine", "einem", "einen", "einer", "either", "el", "elle", "elles", "else", "er", "es", "est",
    "esta", "estas", "este", "estos", "et", "even", "ever", "every", "few", "first", "for",
    "from", "further", "für", "gegen", "had", "has", "have", "having", "he", "hence", "her",
    "here", "hers", "him", "his", "how", "however", "i", "if", "ihr", "il", "ils", "in", "into",
    "is", "ist", "it", "its", "itself", "just", "la", "las", "last", "later", "le", "least",
    "les", "less", "like", "los", "made", "mais", "make", "many", "may", "me", "might", "mit",
    "more", "moreover", "most", "much", "must", "my", "nach", "neither", "never", "new", "nicht",
    "no", "nor", "not", "nous", "now", "o", "oder", "of", "off", "often", "ohne", "on", "once",
    "one", "only", "or", "other", "others", "ou", "our", "out", "over", "own", "para", "per",
    "pero", "por", "pour", "que", "qui", "rather", "said", "same", "sans", "se", "second", "see",
    "several", "shall", "she", "should", "sich", "sie", "sin", "since", "sind", "so", "sobre",
    "some", "son", "sont", "sous", "su", "such", "sur", "sus", "than", "that", "the", "their",
    "them", "then", "there", "therefore", "these", "they", "this", "those", "three", "through",
    "thus", "to", "today", "together", "too", "two", "um", "un", "una", "und", "under", "une",
    "unter", "until", "up", "upon", "us", "use", "used", "using", "very", "von", "vor", "vous",
    "war", "waren", "was", "we", "well", "wenn", "werden", "were", "what", "when", "where",
    "whereas", "whether", "which", "while", "who", "whom", "whose", "why", "wie", "will", "wir",
    "wird", "with", "within", "without", "would", "wurde", "wurden", "y", "yesterday", "yet",
    "you", "your", "zu", "zum", "zur", "über",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_in_order_so_that_they_can_be_found() {
        assert!(STOP.is_sorted_by(|a, b| a < b));
        assert!(STOP.iter().all(|word| word.len() <= LONGEST && is_stop(&word.to_uppercase())));
        assert!(!is_stop("hay") && !is_stop("") && !is_stop(&"the".repeat(1_000)));
    }
}
