"""No URLs: for use as the `ROOT_URLCONF` of a worker."""

urlpatterns: list[object] = []
