"""An image that a snapshot fills slice by slice, beside the one in use, until it is whole and takes its
place.
"""

from collections.abc import Callable, Sequence

from headrace.metadata.image import ClusterImage, MetadataRecord


class Preparing:
    """`new_image` makes an empty one. A slice of another snapshot begins anew."""

    def __init__(self, new_image: Callable[[], ClusterImage]) -> None:
        self._new_image = new_image
        self._snapshot: object = None
        self._image: ClusterImage | None = None

    def add(self, snapshot: object, records: Sequence[MetadataRecord]) -> None:
        if self._image is None or self._snapshot is not snapshot:
            self._snapshot, self._image = snapshot, self._new_image()
        self._image.replay_all(records)

    def take(self, snapshot: object) -> ClusterImage:
        """The image, of which all has been added."""
        image, self._image = self._image, None
        assert image is not None, "a snapshot is prepared before it is loaded"
        assert self._snapshot is snapshot, "another snapshot was prepared"
        self._snapshot = None
        return image
