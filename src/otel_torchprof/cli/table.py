"""Tables of names and numbers that a terminal has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from otel_torchprof.cli.text import MIN_NAME_WIDTH, NameCell, cell

_GAP = 2  # between columns
_ENOUGH_FOR_NAMES = 32  # of all their columns together: names longer than that cost no further column

Cell = NameCell | Text | str


class ReportTable:
    """Names give way where a terminal is narrow, and columns that can be spared; numbers are never cut.

    Args:
        names: headings of the first columns, which hold names.
        numbers: headings of the others, whose cells are whole.
        title: a line above.
        spare: those of `numbers` that a terminal without room for all does not show, the first first.
    """

    def __init__(
        self,
        names: Sequence[str],
        numbers: Sequence[str],
        *,
        title: str | None = None,
        spare: Sequence[str] = (),
    ) -> None:
        self._names = names
        self._numbers = numbers
        self._title = title
        self._spare = [heading for heading in spare if heading in numbers]
        self._rows: list[Sequence[Cell]] = []

    def add_row(self, *cells: Cell) -> None:
        """A cell for each column, in order."""
        self._rows.append(cells)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        first_number = len(self._names)
        shown = {
            heading: self._whole_width(heading, first_number + place)
            for place, heading in enumerate(self._numbers)
        }
        enough = max(_ENOUGH_FOR_NAMES // first_number, MIN_NAME_WIDTH)
        wanted = [min(self._whole_width(name, place), enough) for place, name in enumerate(self._names)]
        left_out: list[str] = []
        for heading in self._spare:
            if _table_width([*wanted, *shown.values()]) <= width:
                break
            del shown[heading]
            left_out.append(heading)
        yield self._table(shown, width)
        if left_out:
            yield cell(f"(left out for want of room: {', '.join(left_out)})")

    def _whole_width(self, heading: str, place: int) -> int:
        """Of a column that has room for its heading and all its cells."""
        return max(cell_len(heading), *(cell_len(str(row[place])) for row in self._rows), 0)

    def _table(self, shown: Mapping[str, int], width: int) -> Table:
        # Wider than the terminal rather than with a number cut: the terminal wraps its lines.
        least = _table_width([*(MIN_NAME_WIDTH for _ in self._names), *shown.values()])
        table = Table(
            title=self._title,
            title_justify="left",
            box=None,
            pad_edge=False,
            padding=(0, _GAP, 0, 0),
            width=least if least > width else None,
        )
        for heading in self._names:
            table.add_column(cell(heading), overflow="fold", min_width=MIN_NAME_WIDTH)
        for heading, column_width in shown.items():
            table.add_column(cell(heading), justify="right", no_wrap=True, min_width=column_width)
        first_number = len(self._names)
        places = [*range(first_number)]
        places += [first_number + self._numbers.index(heading) for heading in shown]
        for row in self._rows:
            table.add_row(*(row[place] for place in places))
        return table


def _table_width(columns: Sequence[int]) -> int:
    return sum(columns) + _GAP * (len(columns) - 1)
