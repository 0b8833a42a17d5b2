/** The longest wait a timer of Node can hold, 24.8 days. Asked for more, it fires at once. */
export const LONGEST_TIMER_MS: number = 2 ** 31 - 1;
