//! What a document is, and what it is about: the words for both.

use serde::{Deserialize, Serialize};

/// An enum whose variants each have one word, the same in memory, in JSON and on a screen.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Its word.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(in crate::text) use words;

words! {
    /// What a document is.
    DocumentType {
        /// What two or more have agreed.
        Contract = "contract",
        /// What all must keep.
        Law = "law",
        /// What a house wants kept.
        Policy = "policy",
        /// What was found out, for those who find out things.
        Paper = "paper",
        /// What ails somebody.
        MedicalRecord = "medical_record",
        /// What something yet to be built must do.
        Requirements = "requirements",
        /// What is to be learnt.
        Lesson = "lesson",
        /// How something is used.
        Manual = "manual",
        /// How something went.
        Report = "report",
        /// What is to be paid.
        Invoice = "invoice",
        /// What was paid.
        Receipt = "receipt",
        /// What went in and out of an account.
        BankStatement = "bank_statement",
        /// What was ordered.
        PurchaseOrder = "purchase_order",
        /// What was earned.
        Payslip = "payslip",
        /// What the state wants to know.
        TaxForm = "tax_form",
        /// What one writes to another.
        Letter = "letter",
        /// Who said what when they met.
        Minutes = "minutes",
        /// What somebody can do.
        Resume = "resume",
        /// Rows and columns.
        Spreadsheet = "spreadsheet",
        /// What programs write for programs.
        Data = "data",
        /// What programs write while they run.
        Log = "log",
        /// What programs are written in.
        Source = "source",
        /// Anything else.
        Other = "other",
    }
}

words! {
    /// What a document is about.
    Domain {
        /// Rights and duties.
        Legal = "legal",
        /// Research.
        Academic = "academic",
        /// Health.
        Medical = "medical",
        /// Machines and programs.
        Technical = "technical",
        /// Teaching.
        Education = "education",
        /// Money.
        Finance = "finance",
        /// Work.
        Business = "business",
        /// Anything else.
        General = "general",
    }
}

/// What a document is and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// What it is.
    pub document_type: DocumentType,
    /// What it is about.
    pub domain: Domain,
}
