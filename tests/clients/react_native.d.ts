// The parts of React Native that the sample uses, with the types of its documentation.
declare module "react-native" {
  import type { ComponentType, ReactElement, ReactNode } from "react";

  interface Accessible {
    accessibilityLabel?: string;
    accessibilityRole?: "button" | "alert";
  }
  export type AppStateStatus = "active" | "background" | "inactive" | "unknown" | "extension";
  export const AppState: {
    currentState: AppStateStatus;
    addEventListener(type: "change", listener: (state: AppStateStatus) => void): { remove(): void };
  };
  export const ActivityIndicator: ComponentType<Accessible>;
  export const Text: ComponentType<Accessible & { numberOfLines?: number; children?: ReactNode }>;
  export const View: ComponentType<Accessible & { style?: { flex?: number }; onTouchStart?: () => void; children?: ReactNode }>;
  export const Pressable: ComponentType<Accessible & { disabled?: boolean; onPress?: () => void; children?: ReactNode }>;
  export const TextInput: ComponentType<
    Accessible & { value?: string; onChangeText?: (text: string) => void; multiline?: boolean }
  >;
  export function FlatList<T>(properties: {
    data: readonly T[];
    keyExtractor: (item: T) => string;
    renderItem: (info: { item: T }) => ReactElement | null;
    ListEmptyComponent?: ReactElement;
    inverted?: boolean;
    onEndReached?: (() => void) | null;
  }): ReactElement;
}
