//! The state machine in the documentation is the one in the code.

#[test]
fn the_page_of_states_shows_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md");
    let page = std::fs::read_to_string(path).expect("docs/states.md");
    let diagram = windrow_core::transitions::diagram();
    let start = page.find("```mermaid\n").expect("a diagram") + "```mermaid\n".len();
    let end = start + page[start..].find("```").expect("its end");
    if std::env::var_os("WINDROW_BLESS").is_some() {
        let page = format!("{}{diagram}{}", &page[..start], &page[end..]);
        std::fs::write(path, page).expect("docs/states.md can be written");
        return;
    }
    assert_eq!(&page[start..end], diagram, "run with WINDROW_BLESS=1 to draw it again");
}
