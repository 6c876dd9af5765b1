//! Forms (XEP-0004).

use super::element::Element;
use super::ns;

/// The most fields that are read.
const FIELDS_MAX: usize = 200;
/// The most values of one field that are read.
const VALUES_MAX: usize = 1_000;

/// A form to be filled in, filled in, or as the answer to a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// `form`, `submit`, `cancel` or `result`.
    pub kind: String,
    /// What it is called.
    pub title: String,
    /// What to do with it.
    pub instructions: String,
    /// Its fields in their order, `FORM_TYPE` among them.
    pub fields: Vec<Field>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Field {
    /// Its name for programs.
    pub var: String,
    /// `text-single`, `boolean`, `list-single` …; empty where it is not said.
    pub kind: &'static str,
    /// Its name for people.
    pub label: String,
    /// What it is about.
    pub description: String,
    /// Its values.
    pub values: Vec<String>,
    /// What can be chosen: the name for people, and the value.
    pub options: Vec<(String, String)>,
    /// Whether it must be filled in.
    pub required: bool,
}

impl Form {
    /// A form to be filled in, of this `FORM_TYPE`.
    pub fn to_fill_in(form_type: &str) -> Self {
        Self { kind: "form".into(), ..Self::default() }.with(Field::hidden("FORM_TYPE", form_type))
    }

    /// A form that tells something, of this `FORM_TYPE`.
    pub fn result(form_type: &str) -> Self {
        Self { kind: "result".into(), ..Self::to_fill_in(form_type) }
    }

    /// Reads a form; none where it is none, or has too many fields.
    pub fn read(element: &Element) -> Option<Self> {
        if !element.is("x", ns::FORM) {
            return None;
        }
        let mut form =
            Self { kind: element.attr("type").unwrap_or("submit").to_owned(), ..Self::default() };
        for field in element.children().filter(|child| child.is("field", ns::FORM)) {
            let values = field.children().filter(|child| child.is("value", ns::FORM));
            let values: Vec<String> =
                values.take(VALUES_MAX + 1).map(super::Element::text).collect();
            if form.fields.len() == FIELDS_MAX || values.len() > VALUES_MAX {
                return None;
            }
            let var = field.attr("var").unwrap_or_default().to_owned();
            form.fields.push(Field { var, values, ..Field::default() });
        }
        Some(form)
    }

    /// The form inside of `around`, if there is one.
    pub fn inside(around: &Element) -> Option<Self> {
        around.children().find_map(Self::read)
    }

    /// Whether it was filled in, and not cancelled.
    pub fn is_submitted(&self) -> bool {
        self.kind == "submit"
    }

    /// Its `FORM_TYPE`.
    pub fn form_type(&self) -> Option<&str> {
        self.value("FORM_TYPE")
    }

    /// All values of a field; none when the field is not there.
    pub fn values(&self, var: &str) -> Option<&[String]> {
        self.fields.iter().find(|field| field.var == var).map(|field| field.values.as_slice())
    }

    /// The first value of a field.
    pub fn value(&self, var: &str) -> Option<&str> {
        self.values(var)?.first().map(String::as_str)
    }

    /// The value of a field that is true or false; none when it is neither.
    pub fn flag(&self, var: &str) -> Option<bool> {
        match self.value(var)? {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        }
    }

    /// The lines of a field.
    pub fn lines(&self, var: &str) -> Option<String> {
        Some(self.values(var)?.join("\n"))
    }

    /// With this title.
    #[must_use]
    pub fn titled(mut self, title: &str, instructions: &str) -> Self {
        self.title = title.to_owned();
        self.instructions = instructions.to_owned();
        self
    }

    /// With this field.
    #[must_use]
    pub fn with(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// As it goes out.
    pub fn element(&self) -> Element {
        let mut form = Element::new("x", ns::FORM).with_attr("type", &*self.kind);
        for (name, text) in [("title", &self.title), ("instructions", &self.instructions)] {
            if !text.is_empty() {
                form = form.with_child(Element::new(name, ns::FORM).with_text(&**text));
            }
        }
        form.with_children(self.fields.iter().map(Field::element))
    }
}

impl Field {
    /// A field with one value.
    pub fn new(kind: &'static str, var: &str, label: &str, value: impl Into<String>) -> Self {
        let (var, label) = (var.to_owned(), label.to_owned());
        Self { var, kind, label, values: vec![value.into()], ..Self::default() }
    }

    /// A field that people do not see.
    pub fn hidden(var: &str, value: &str) -> Self {
        Self::new("hidden", var, "", value)
    }

    /// A field that is true or false.
    pub fn flag(var: &str, label: &str, value: bool) -> Self {
        Self::new("boolean", var, label, if value { "1" } else { "0" })
    }

    /// A field of several values.
    pub fn many(kind: &'static str, var: &str, label: &str, values: &[String]) -> Self {
        let (var, label) = (var.to_owned(), label.to_owned());
        Self { var, kind, label, values: values.to_vec(), ..Self::default() }
    }

    /// Of which these can be chosen.
    #[must_use]
    pub fn of<'o>(mut self, options: impl IntoIterator<Item = &'o str>) -> Self {
        let option = |value: &str| (value.to_owned(), value.to_owned());
        self.options = options.into_iter().map(option).collect();
        self
    }

    /// That must be filled in.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    fn element(&self) -> Element {
        let mut field = Element::new("field", ns::FORM).with_attr("var", &*self.var);
        if !self.kind.is_empty() {
            field.set_attr("type", self.kind);
        }
        if !self.label.is_empty() {
            field.set_attr("label", &*self.label);
        }
        if !self.description.is_empty() {
            field = field.with_child(Element::new("desc", ns::FORM).with_text(&*self.description));
        }
        if self.required {
            field = field.with_child(Element::new("required", ns::FORM));
        }
        let value = |text: &str| Element::new("value", ns::FORM).with_text(text);
        field.with_children(self.values.iter().map(|text| value(text))).with_children(
            self.options.iter().map(|(label, text)| {
                Element::new("option", ns::FORM)
                    .with_attr("label", &**label)
                    .with_child(value(text))
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let form = Form::to_fill_in("urn:x")
            .titled("A form", "Fill it in")
            .with(Field::flag("on", "On?", true))
            .with(Field::new("list-single", "kind", "Which", "a").of(["a", "b"]).required());
        let back = Form::read(&form.element()).unwrap();
        assert_eq!(back.form_type(), Some("urn:x"));
        assert_eq!((back.flag("on"), back.value("kind")), (Some(true), Some("a")));
        assert_eq!(back.value("missing"), None);
    }

    #[test]
    fn what_is_no_form_or_endless_is_not_read() {
        assert_eq!(Form::read(&Element::new("x", "urn:other")), None);
        let fields = (0..=FIELDS_MAX).map(|_| Element::new("field", ns::FORM));
        assert_eq!(Form::read(&Element::new("x", ns::FORM).with_children(fields)), None);
    }
}
