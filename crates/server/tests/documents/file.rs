//! Files that a test makes.

use std::fmt::Write as _;

/// A PDF with a text layer, of so many pages, each with lines of its own.
pub(crate) fn pdf(pages: usize, lines: impl Fn(usize) -> Vec<String>) -> Vec<u8> {
    let mut objects: Vec<String> = Vec::new();
    let kids: String = (0..pages).map(|page| format!("{} 0 R ", 4 + 2 * page)).collect();
    objects.push("<< /Type /Catalog /Pages 2 0 R >>".to_owned());
    objects.push(format!("<< /Type /Pages /Count {pages} /Kids [{kids}] >>"));
    objects.push("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned());
    for page in 0..pages {
        let mut text = "BT /F1 11 Tf 14 TL 60 780 Td".to_owned();
        for line in lines(page + 1) {
            let line = line.replace('\\', "\\\\").replace('(', "\\(").replace(')', "\\)");
            write!(text, " ({line}) Tj T*").unwrap();
        }
        text.push_str(" ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * page
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{text}\nendstream", text.len()));
    }
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", at + 1).unwrap();
    }
    let table = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    places.iter().for_each(|place| writeln!(file, "{place:010} 00000 n ").unwrap());
    let size = objects.len() + 1;
    write!(file, "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n").unwrap();
    file.into_bytes()
}

/// What a page of a chronicle says: a few sentences, each page about another town.
pub(crate) fn chronicle(page: usize) -> Vec<String> {
    vec![
        format!(
            "The chronicle of the town number {page} begins with a flood in the year {}.",
            1200 + page
        ),
        format!(
            "Its mill stood at mark {page} of the river, and Marta Quell kept the records there."
        ),
        format!(
            "In the archive of Bromley the town number {page} is listed with {} houses.",
            40 + page
        ),
        "A bridge of oak was built by Anton Ferro, who came from Lisbon with two brothers."
            .to_owned(),
    ]
}
