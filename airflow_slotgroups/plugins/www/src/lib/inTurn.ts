let last: Promise<unknown> = Promise.resolve();

/** Do one thing after the other: hundreds of questions at once would hold up those that are asked every two seconds. */
export const inTurn = <T>(ask: () => Promise<T>): Promise<T> => {
  const mine = last.then(ask);
  last = mine.catch(() => undefined);
  return mine;
};
