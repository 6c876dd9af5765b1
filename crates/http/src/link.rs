//! The `Link` header by which lists are paged (RFC 8288).

use http::{HeaderValue, Uri};

/// Parameters that say where a page begins; replaced in links to other pages.
const CURSORS: &[&str] = &["max_id", "min_id", "since_id", "offset", "access_token"];

/// A link to the page of `uri` that `cursor` names, with its other parameters kept.
fn page(base: &str, uri: &Uri, cursor: (&str, &str)) -> String {
    let kept = uri.query().unwrap_or_default().split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !pair.is_empty() && !CURSORS.contains(&name)
    });
    let mut query: String = kept.map(|pair| format!("{pair}&")).collect();
    query.push_str(&format!("{}={}", cursor.0, cursor.1));
    format!("{base}{}?{query}", uri.path())
}

/// The header with links to the next (older) and previous (newer) page of `uri`.
pub fn link_header(
    base: &str,
    uri: &Uri,
    next: Option<(&str, &str)>,
    previous: Option<(&str, &str)>,
) -> Option<HeaderValue> {
    let link = |cursor: Option<(&str, &str)>, rel: &str| {
        cursor.map(|cursor| format!("<{}>; rel=\"{rel}\"", page(base, uri, cursor)))
    };
    let links: Vec<String> =
        [link(next, "next"), link(previous, "prev")].into_iter().flatten().collect();
    if links.is_empty() { None } else { HeaderValue::from_str(&links.join(", ")).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_keep_the_other_parameters_and_hide_tokens() {
        let uri: Uri = "/api/x?limit=2&max_id=9&types[]=a&access_token=s".parse().unwrap();
        let header =
            link_header("https://a.test", &uri, Some(("max_id", "5")), Some(("min_id", "8")));
        assert_eq!(
            header.unwrap(),
            "<https://a.test/api/x?limit=2&types[]=a&max_id=5>; rel=\"next\", \
             <https://a.test/api/x?limit=2&types[]=a&min_id=8>; rel=\"prev\""
        );
        assert_eq!(link_header("https://a.test", &uri, None, None), None);
    }
}
