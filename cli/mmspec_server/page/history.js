// Keeps the conversation while the tab is open, so that it is there after a reload.

const NAME = "conversation";

/** Keeps a conversation; false if the browser has no room for its pictures. */
export function keep(conversation) {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(conversation));
    return true;
  } catch {
    forget();
    return false;
  }
}

/** The conversation of this tab, or null. */
export function load() {
  try {
    return JSON.parse(sessionStorage.getItem(NAME));
  } catch {
    return null;
  }
}

export function forget() {
  sessionStorage.removeItem(NAME);
}
