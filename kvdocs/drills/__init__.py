"""The lesson's questions, as objects that can be asked, answered and tested.

A drill is one frozen `Drill`: a question whose numbers are drawn by a seed, an answer that `kvdocs`
computes when it is asked for, the wrong answers that known misconceptions lead to, hints, and a
worked solution. A page prints it with `kvdocs.pages.drill`, and the browser asks `browser.check`.
"""
