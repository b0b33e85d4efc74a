/** The editor's own bundle: fetched when a reader presses *Edit and run*, or has a kept text. */

import type { CellElement } from "../kv-cell";
import { EditableCell } from "./cell";

/** Take charge of a cell; nothing is fetched or started before `edit` is called. */
export function attach(element: CellElement): EditableCell {
  return new EditableCell(element);
}
