"""Tables of names and numbers that a terminal has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from otel_torchprof.cli.text import MIN_NAME_WIDTH, NameCell, cell

_GAP = 2  # between columns
# Of a name in a pipe or a file, which have room for any: templates may take 250; --json has all.
_MAX_WRITTEN_NAME = 100
_ENOUGH_FOR_NAMES = 32  # of all their columns together: names longer than that cost no further column

Cell = NameCell | Text | str


class ReportTable:
    """Names give way where a terminal is narrow, and columns that can be spared; numbers are never cut.

    Args:
        names: headings of the first columns, which hold names.
        numbers: headings of the others, whose cells are whole.
        title: a line above.
        spare: columns that a terminal without room for all does not show, the first first.
        last: the same, but kept as long as names have room to say anything.
    """

    def __init__(
        self,
        names: Sequence[str],
        numbers: Sequence[str],
        *,
        title: str | None = None,
        spare: Sequence[str] = (),
        last: Sequence[str] = (),
    ) -> None:
        self._names = names
        self._numbers = numbers
        self._title = title
        there = (*names[1:], *numbers)
        self._spare = [heading for heading in spare if heading in there]
        self._last = [heading for heading in last if heading in there]
        self._rows: list[Sequence[Cell]] = []

    def add_row(self, *cells: Cell) -> None:
        """A cell for each column, in order."""
        self._rows.append(cells)

    def shows(self, heading: str, width: int) -> bool:
        """Whether a terminal of that width has room for a column."""
        return heading in self._columns_within(width)[0]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, left_out = self._columns_within(options.max_width)
        yield self._table(shown, options.max_width, None if console.is_terminal else _MAX_WRITTEN_NAME)
        if left_out:
            yield cell(f"(left out for want of room: {', '.join(left_out)})")

    def _columns_within(self, width: int) -> tuple[dict[str, int], list[str]]:
        """The columns that are shown with the widths they would like, and those that are left out."""
        shown = {heading: self._whole_width(heading, place) for heading, place in self._places().items()}
        enough = max(_ENOUGH_FOR_NAMES // len(self._names), MIN_NAME_WIDTH)
        left_out: list[str] = []
        for headings, name_width in ((self._spare, enough), (self._last, MIN_NAME_WIDTH)):
            for heading in headings:
                if self._width(shown, name_width) <= width:
                    break
                del shown[heading]
                left_out.append(heading)
        return shown, left_out

    def _places(self) -> dict[str, int]:
        """The place in a row of what is below each heading."""
        return {heading: place for place, heading in enumerate((*self._names, *self._numbers))}

    def _width(self, shown: Mapping[str, int], name_width: int) -> int:
        """Of a table of these columns whose names have as much room as that, where they need it."""
        columns = [
            min(width, name_width) if heading in self._names else width for heading, width in shown.items()
        ]
        return sum(columns) + _GAP * (len(columns) - 1)

    def _whole_width(self, heading: str, place: int) -> int:
        """Of a column that has room for its heading and all its cells."""
        return max(cell_len(heading), *(cell_len(str(row[place])) for row in self._rows), 0)

    def _table(self, shown: Mapping[str, int], width: int, max_name: int | None) -> Table:
        # Wider than the terminal rather than with a number cut: the terminal wraps its lines.
        least = self._width(shown, MIN_NAME_WIDTH)
        table = Table(
            title=self._title,
            title_justify="left",
            box=None,
            pad_edge=False,
            padding=(0, _GAP, 0, 0),
            width=least if least > width else None,
        )
        places = self._places()
        for heading, whole_width in shown.items():
            if heading in self._names:
                least_width = min(whole_width, MIN_NAME_WIDTH)
                # What is no name, such as a list of shapes, would be folded.
                are_names = all(isinstance(row[places[heading]], NameCell) for row in self._rows)
                most = max_name if are_names else None
                table.add_column(cell(heading), overflow="fold", min_width=least_width, max_width=most)
            else:
                table.add_column(cell(heading), justify="right", no_wrap=True, min_width=whole_width)
        for row in self._rows:
            table.add_row(*(row[places[heading]] for heading in shown))
        return table
