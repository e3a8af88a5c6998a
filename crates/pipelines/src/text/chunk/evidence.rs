//! Evidence: what speaks for a document being of a type, and how much.
//!
//! Phrases are small letters and figures with single spaces between, as `classify::words` writes.

use super::class::{DocumentType as T, Domain};

type Phrases = &'static [(&'static str, u32)];

#[rustfmt::skip]
pub(super) const EVIDENCE: &[(T, Phrases)] = &[
    (T::Contract, &[
        ("this agreement", 3), ("agreement", 1), ("contract", 1), ("hereinafter", 2),
        ("the parties", 2), ("in witness whereof", 4), ("governing law", 3), ("termination", 1),
        ("liability", 1), ("confidentiality", 1), ("indemnify", 2), ("effective date", 2),
        ("entire agreement", 3), ("force majeure", 3), ("lessee", 2), ("licensee", 2),
    ]),
    (T::Law, &[
        ("be it enacted", 5), ("shall come into force", 4), ("enter into force", 3),
        ("official journal", 3), ("pursuant to", 2), ("this act", 3), ("this regulation", 3),
        ("member states", 2), ("subsection", 2), ("statute", 2), ("gazette", 2), ("repealed", 2),
    ]),
    (T::Policy, &[
        ("this policy", 4), ("policy", 1), ("privacy policy", 4), ("terms of service", 4),
        ("terms and conditions", 3), ("code of conduct", 3), ("compliance", 1),
        ("personal data", 2), ("employees must", 2),
    ]),
    (T::Paper, &[
        ("abstract", 2), ("introduction", 1), ("related work", 3), ("references", 2), ("et al", 3),
        ("doi", 2), ("we propose", 3), ("our results", 2), ("methodology", 1), ("experiments", 1),
        ("conclusion", 1), ("keywords", 1), ("arxiv", 3), ("hypothesis", 1), ("in this paper", 4),
        ("this thesis", 4), ("in this study", 3),
    ]),
    (T::MedicalRecord, &[
        ("patient", 2), ("diagnosis", 2), ("chief complaint", 4), ("history of present illness", 5),
        ("past medical history", 4), ("medications", 2), ("allergies", 2),
        ("physical examination", 3), ("discharge summary", 5), ("vital signs", 3),
        ("blood pressure", 2), ("symptoms", 1), ("treatment", 1), ("dosage", 1), ("mg", 1),
    ]),
    (T::Requirements, &[
        ("the system shall", 5), ("requirements specification", 5), ("functional requirements", 4),
        ("non functional requirements", 4), ("acceptance criteria", 3), ("user story", 2),
        ("traceability", 2), ("req", 2), ("srs", 2), ("shall", 1), ("stakeholders", 1),
        ("requirement", 1), ("requirements", 1),
    ]),
    (T::Lesson, &[
        ("learning objectives", 4), ("in this lesson", 4), ("in this chapter", 3), ("lesson", 2),
        ("exercise", 2), ("exercises", 2), ("homework", 3), ("quiz", 2), ("curriculum", 2),
        ("syllabus", 3), ("tutorial", 2), ("students", 1), ("course", 1), ("chapter", 1),
    ]),
    (T::Manual, &[
        ("user manual", 4), ("user guide", 4), ("getting started", 3), ("troubleshooting", 3),
        ("safety instructions", 3), ("installation", 2), ("configuration", 2), ("step 1", 2),
        ("command line", 2), ("usage", 1), ("warranty", 1), ("click", 1), ("api", 1),
    ]),
    (T::Report, &[
        ("this report", 4), ("annual report", 4), ("executive summary", 4), ("key figures", 2),
        ("findings", 2), ("recommendations", 2), ("fiscal year", 2), ("quarter", 1),
        ("revenue", 1), ("outlook", 1), ("report", 1),
    ]),
    (T::Invoice, &[
        ("invoice", 3), ("invoice number", 4), ("invoice date", 3), ("bill to", 4),
        ("amount due", 4), ("due date", 2), ("unit price", 2), ("subtotal", 2), ("vat", 1),
        ("total", 1), ("payment terms", 1),
    ]),
    (T::Receipt, &[
        ("receipt", 3), ("thank you for your purchase", 5), ("cashier", 3), ("change due", 3),
        ("card ending", 2), ("transaction", 1), ("subtotal", 1), ("total", 1), ("paid", 1),
    ]),
    (T::BankStatement, &[
        ("bank statement", 5), ("account statement", 5), ("opening balance", 4),
        ("closing balance", 4), ("statement period", 4), ("iban", 2), ("withdrawals", 2),
        ("deposits", 2), ("account number", 2), ("balance", 1),
    ]),
    (T::PurchaseOrder, &[
        ("purchase order", 5), ("po number", 4), ("ship to", 3), ("order date", 2),
        ("delivery date", 1), ("vendor", 1), ("quantity", 1),
    ]),
    (T::Payslip, &[
        ("payslip", 6), ("pay slip", 6), ("net pay", 4), ("gross pay", 4), ("pay period", 3),
        ("deductions", 2), ("employee id", 2),
    ]),
    (T::TaxForm, &[
        ("tax return", 4), ("taxable income", 3), ("form w 2", 5), ("form 1040", 5),
        ("tax year", 3), ("taxpayer", 2), ("withholding", 2),
    ]),
    (T::Letter, &[
        ("yours faithfully", 5), ("yours sincerely", 5), ("sincerely", 3), ("kind regards", 3),
        ("best regards", 3), ("dear", 2), ("enclosed", 1),
    ]),
    (T::Minutes, &[
        ("meeting minutes", 5), ("minutes of", 4), ("adjourned", 4), ("attendees", 3),
        ("action items", 3), ("next meeting", 3), ("agenda", 2),
    ]),
    (T::Resume, &[
        ("curriculum vitae", 6), ("work experience", 4), ("employment history", 4),
        ("references available", 3), ("resume", 2), ("education", 1), ("skills", 1),
    ]),
];

/// Words in the names of files.
#[rustfmt::skip]
pub(super) const NAMES: &[(T, &str)] = &[
    (T::Contract, "contract"), (T::Contract, "agreement"), (T::Contract, "nda"),
    (T::Contract, "lease"), (T::Law, "law"), (T::Law, "act"), (T::Law, "regulation"),
    (T::Policy, "policy"), (T::Policy, "terms"), (T::Paper, "paper"), (T::Paper, "thesis"),
    (T::Paper, "article"), (T::MedicalRecord, "patient"), (T::MedicalRecord, "discharge"),
    (T::MedicalRecord, "medical"), (T::Requirements, "requirements"), (T::Requirements, "srs"),
    (T::Lesson, "lesson"), (T::Lesson, "lecture"), (T::Lesson, "course"), (T::Lesson, "syllabus"),
    (T::Lesson, "tutorial"), (T::Manual, "manual"), (T::Manual, "guide"), (T::Manual, "handbook"),
    (T::Manual, "readme"), (T::Report, "report"), (T::Invoice, "invoice"), (T::Receipt, "receipt"),
    (T::BankStatement, "statement"), (T::PurchaseOrder, "po"), (T::Payslip, "payslip"),
    (T::Payslip, "payroll"), (T::TaxForm, "tax"), (T::Letter, "letter"), (T::Minutes, "minutes"),
    (T::Resume, "resume"), (T::Resume, "cv"),
];

#[rustfmt::skip]
pub(super) const DOMAINS: &[(Domain, &[&str])] = &[
    (Domain::Legal, &[
        "court", "plaintiff", "defendant", "liability", "jurisdiction", "contract", "clause",
        "attorney", "statute", "pursuant",
    ]),
    (Domain::Academic, &[
        "research", "theory", "hypothesis", "experiment", "experiments", "literature", "study",
        "university", "journal", "et al",
    ]),
    (Domain::Medical, &[
        "patient", "patients", "clinical", "disease", "therapy", "diagnosis", "treatment",
        "symptoms", "hospital", "dose",
    ]),
    (Domain::Technical, &[
        "software", "server", "database", "api", "protocol", "configuration", "voltage", "engine",
        "interface", "memory", "install", "network", "code", "command",
    ]),
    (Domain::Education, &[
        "students", "teacher", "lesson", "course", "exercise", "school", "learning", "curriculum",
    ]),
    (Domain::Finance, &[
        "revenue", "profit", "shares", "loan", "interest", "tax", "assets", "equity", "dividend",
        "balance", "payment",
    ]),
    (Domain::Business, &[
        "customers", "marketing", "strategy", "management", "sales", "market", "team", "project",
        "company", "suppliers",
    ]),
];
