//! Tags: the few that say something about where text stands.

/// What a tag is to whoever reads for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Heading(u8),
    P,
    /// Anything that stands on lines of its own and says no more than that.
    Block,
    /// Where the text itself is, which no menu goes on into.
    Main,
    Ul,
    Ol,
    Li,
    Table,
    Row,
    Cell,
    Pre,
    Code,
    Quote,
    Link,
    B,
    Br,
    Hr,
    Image,
    Title,
    /// A menu.
    Nav,
    /// What readers do not see as text: pictures drawn by hand, choices, buttons.
    Unseen,
    Script,
    Style,
    /// Nothing is in it, and it is nothing.
    Void,
    Other,
}

impl Tag {
    /// The tag of a name in any case.
    pub(super) fn named(name: &str) -> Tag {
        const LONGEST: usize = 10;
        let mut lower = [0; LONGEST];
        let Some(lower) = lower.get_mut(..name.len()) else { return Tag::Other };
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        match &*lower {
            [b'h', level @ b'1'..=b'6'] => Tag::Heading(level - b'0'),
            b"p" => Tag::P,
            b"div" | b"section" | b"header" | b"footer" | b"aside" | b"address" | b"body"
            | b"dl" | b"dt" | b"dd" | b"figure" | b"figcaption" | b"caption" | b"form"
            | b"fieldset" | b"legend" | b"details" | b"summary" | b"center" | b"html"
            | b"hgroup" => Tag::Block,
            b"main" | b"article" => Tag::Main,
            b"ul" | b"menu" | b"dir" => Tag::Ul,
            b"ol" => Tag::Ol,
            b"li" => Tag::Li,
            b"table" => Tag::Table,
            b"tr" => Tag::Row,
            b"td" | b"th" => Tag::Cell,
            b"pre" | b"xmp" | b"listing" => Tag::Pre,
            b"code" | b"kbd" | b"samp" | b"tt" => Tag::Code,
            b"blockquote" => Tag::Quote,
            b"a" => Tag::Link,
            b"b" | b"strong" | b"i" | b"em" | b"u" | b"s" | b"span" | b"font" => Tag::B,
            b"br" => Tag::Br,
            b"hr" => Tag::Hr,
            b"img" => Tag::Image,
            b"title" => Tag::Title,
            b"nav" => Tag::Nav,
            b"svg" | b"canvas" | b"select" | b"textarea" | b"button" | b"noscript"
            | b"template" | b"iframe" | b"object" | b"audio" | b"video" | b"datalist"
            | b"dialog" => Tag::Unseen,
            b"script" => Tag::Script,
            b"style" => Tag::Style,
            b"meta" | b"link" | b"input" | b"wbr" | b"col" | b"area" | b"base" | b"embed"
            | b"source" | b"track" | b"param" => Tag::Void,
            _ => Tag::Other,
        }
    }

    /// Whether what is in it is not seen.
    pub(super) fn hides(self) -> bool {
        matches!(self, Tag::Nav | Tag::Unseen)
    }

    /// Whether nothing but its own end tag ends it, and nothing in it is a tag.
    pub(super) fn is_raw(self) -> bool {
        matches!(self, Tag::Script | Tag::Style)
    }

    /// Whether no end tag is to be expected.
    pub(super) fn is_void(self) -> bool {
        matches!(self, Tag::Br | Tag::Hr | Tag::Image | Tag::Void)
    }

    /// Whether text before it and text in it are on different lines.
    pub(super) fn breaks_line(self) -> bool {
        use Tag::{B, Br, Code, Image, Link, Other, Title, Unseen, Void};
        !matches!(self, B | Br | Code | Image | Link | Other | Title | Unseen | Void)
            && !self.is_raw()
    }

    /// Whether it matters that it is open.
    pub(super) fn is_kept(self) -> bool {
        !matches!(self, Tag::P | Tag::B | Tag::Link | Tag::Other)
            && !self.is_void()
            && !self.is_raw()
    }

    /// Whether an end tag of the one ends the other.
    pub(super) fn ends(self, open: Tag) -> bool {
        self == open || matches!((self, open), (Tag::Heading(_), Tag::Heading(_)))
    }

    /// Whether an end tag of the one, misplaced, leaves everything around the other alone.
    pub(super) fn stops_at(self, open: Tag) -> bool {
        match self {
            Tag::Table => false,
            Tag::Row | Tag::Cell => open == Tag::Table,
            Tag::Li => matches!(open, Tag::Ul | Tag::Ol | Tag::Cell | Tag::Table),
            _ => matches!(open, Tag::Cell | Tag::Table),
        }
    }
}
