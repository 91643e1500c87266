"""The operations page: streams, dates, symbol tables, disk use, quarantine, errors and findings as one HTML document.

``facts`` are what a page shows, as values; ``collect`` reads them from a database; ``summary`` bounds them;
``pictures`` and ``document`` make text of them and touch neither disk nor clock. The command ``page`` serves the text.
"""
