"""The report workflow: submitted, published, claimed, archived, completed; each request once.

Source document: `report-requests.md`.
"""
