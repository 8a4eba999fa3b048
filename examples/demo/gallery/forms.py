"""The upload form."""

from django import forms
from django.core.exceptions import ValidationError

from .models import Picture

LARGEST = 25 * 1024 * 1024


class PictureForm(forms.ModelForm):
    """A picture; its title is the name of the file unless there is a better one."""

    class Meta:
        """What is asked for."""

        model = Picture
        fields = ["file", "title"]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["title"].required = False
        self.fields["file"].widget.attrs["accept"] = "image/*"

    def clean_file(self):
        """Refuse what is too large for a demo."""
        file = self.cleaned_data["file"]
        if file.size > LARGEST:
            raise ValidationError(f"The picture has {file.size / 2**20:.0f} MB; please take one of at most 25 MB.")
        return file

    def clean(self):
        """Fill in the title."""
        cleaned = super().clean()
        if not cleaned.get("title") and cleaned.get("file"):
            cleaned["title"] = cleaned["file"].name[:100]
        return cleaned
