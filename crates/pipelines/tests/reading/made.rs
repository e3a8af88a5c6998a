//! Small PDFs, made as a test wants them.

/// What is on a page.
#[derive(Clone, Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    /// The side of a black square on it.
    pub(crate) picture_points: u32,
    /// Whether its font says that its signs stand for nothing that anybody knows.
    pub(crate) is_unmapped: bool,
    /// The sides of the sheet; A4 if none.
    pub(crate) sheet: Option<(u32, u32)>,
}

pub(crate) fn text_page(text: &str) -> Page {
    Page { text: text.to_owned(), ..Page::default() }
}

/// A PDF of pages. What stands in `trailer` is added there.
pub(crate) fn pdf(pages: &[Page], trailer: &str) -> Vec<u8> {
    let kids: String = (0..pages.len()).map(|nth| format!("{} 0 R ", 3 + 5 * nth)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", pages.len()),
    ];
    for page in pages {
        objects.extend(drawn(page, objects.len() + 1));
    }
    let mut out = String::from("%PDF-1.4\n");
    let mut places = Vec::new();
    for (nth, object) in objects.iter().enumerate() {
        places.push(out.len());
        out += &format!("{} 0 obj\n{object}\nendobj\n", nth + 1);
    }
    let (xref, many) = (out.len(), objects.len() + 1);
    out += &format!("xref\n0 {many}\n0000000000 65535 f \n");
    for place in places {
        out += &format!("{place:010} 00000 n \n");
    }
    out +=
        &format!("trailer\n<< /Size {many} /Root 1 0 R {trailer} >>\nstartxref\n{xref}\n%%EOF\n");
    out.into_bytes()
}

/// The five objects of a page, from this number on: itself, its content, font, meaning and picture.
fn drawn(page: &Page, first: usize) -> [String; 5] {
    let (width, height) = page.sheet.unwrap_or((595, 842));
    let (content, font, meaning, picture) = (first + 1, first + 2, first + 3, first + 4);
    let object = format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents {content} 0 R \
         /Resources << /Font << /F {font} 0 R >> /XObject << /I {picture} 0 R >> >> >>"
    );
    let side = page.picture_points;
    let mut drawing = String::new();
    if side > 0 {
        drawing += &format!("q {side} 0 0 {side} 10 200 cm /I Do Q\n");
    }
    if !page.text.is_empty() {
        drawing += &format!("BT /F 11 Tf 40 100 Td ({}) Tj ET", page.text);
    }
    let meant = if page.is_unmapped { format!("/ToUnicode {meaning} 0 R") } else { String::new() };
    let font = format!(
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding {meant} >>"
    );
    let map = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def \
               1 begincodespacerange <00> <FF> endcodespacerange \
               1 beginbfrange <21> <7E> <E021> endbfrange endcmap end end";
    let head = "/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray \
                /BitsPerComponent 8";
    [object, stream("", &drawing), font, stream("", map), stream(head, "\0")]
}

fn stream(head: &str, body: &str) -> String {
    format!("<< {head} /Length {} >>\nstream\n{body}\nendstream", body.len())
}

/// The width and height of a PNG.
pub(crate) fn png_size(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}
