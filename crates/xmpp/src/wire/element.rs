//! A parsed element: compact, with its namespaces resolved.

use std::borrow::Cow;

/// An element with everything inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its name without a prefix.
    pub name: Cow<'static, str>,
    /// Its namespace.
    pub ns: Cow<'static, str>,
    /// Attributes in their order: `type`, `xml:lang`; those of other namespaces as `{ns}name`.
    pub attrs: Vec<(Cow<'static, str>, String)>,
    /// What is inside.
    pub nodes: Vec<Node>,
}

/// What stands inside of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Another element.
    Element(Element),
    /// Text, unescaped.
    Text(String),
}

impl Element {
    /// An empty element.
    pub fn new(name: impl Into<Cow<'static, str>>, ns: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), ns: ns.into(), attrs: Vec::new(), nodes: Vec::new() }
    }

    /// What it takes in memory besides itself, in bytes, at least.
    pub fn heap_bytes(&self) -> usize {
        let text = |text: &Cow<'static, str>| match text {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.len(),
        };
        let attrs = self.attrs.iter().map(|(name, value)| text(name) + value.len());
        let nodes = self.nodes.iter().map(|node| match node {
            Node::Element(element) => element.heap_bytes(),
            Node::Text(text) => text.len(),
        });
        let own = size_of_val(&*self.attrs) + size_of_val(&*self.nodes);
        text(&self.name) + text(&self.ns) + own + attrs.sum::<usize>() + nodes.sum::<usize>()
    }

    /// With this attribute.
    #[must_use]
    pub fn with_attr(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Self {
        self.set_attr(name, value);
        self
    }

    /// With this attribute, where there is a value.
    #[must_use]
    pub fn with_attr_opt(
        self,
        name: impl Into<Cow<'static, str>>,
        value: Option<impl Into<String>>,
    ) -> Self {
        match value {
            Some(value) => self.with_attr(name, value),
            None => self,
        }
    }

    /// With this element inside.
    #[must_use]
    pub fn with_child(mut self, child: Element) -> Self {
        self.nodes.push(Node::Element(child));
        self
    }

    /// With these elements inside.
    #[must_use]
    pub fn with_children(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.nodes.extend(children.into_iter().map(Node::Element));
        self
    }

    /// With this text inside.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.nodes.push(Node::Text(text));
        }
        self
    }

    /// Whether it is `name` in `ns`.
    pub fn is(&self, name: &str, ns: &str) -> bool {
        self.name == name && self.ns == ns
    }

    /// The value of an attribute.
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.attrs.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    /// Sets an attribute, in the place of an older one of that name.
    pub fn set_attr(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.attrs.iter_mut().find(|(is, _)| *is == name) {
            Some((_, old)) => *old = value,
            None => self.attrs.push((name, value)),
        }
    }

    /// Takes an attribute out.
    pub fn take_attr(&mut self, name: &str) -> Option<String> {
        let at = self.attrs.iter().position(|(is, _)| is == name)?;
        Some(self.attrs.remove(at).1)
    }

    /// The elements inside, in their order.
    pub fn children(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(child) => Some(child),
            Node::Text(_) => None,
        })
    }

    /// The first element inside that is `name` in `ns`.
    pub fn child(&self, name: &str, ns: &str) -> Option<&Element> {
        self.children().find(|child| child.is(name, ns))
    }

    /// Whether there is such an element inside.
    pub fn has(&self, name: &str, ns: &str) -> bool {
        self.child(name, ns).is_some()
    }

    /// The elements inside, given away.
    pub fn into_children(self) -> impl Iterator<Item = Element> {
        self.nodes.into_iter().filter_map(|node| match node {
            Node::Element(child) => Some(child),
            Node::Text(_) => None,
        })
    }

    /// Takes out every element inside for which `is` holds.
    pub fn remove_children(&mut self, is: impl Fn(&Element) -> bool) {
        self.nodes.retain(|node| match node {
            Node::Element(child) => !is(child),
            Node::Text(_) => true,
        });
    }

    /// The text right inside.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for node in &self.nodes {
            if let Node::Text(text) = node {
                all.push_str(text);
            }
        }
        all
    }
}
