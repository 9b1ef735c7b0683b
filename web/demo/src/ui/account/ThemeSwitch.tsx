import { Icon } from "../Icon";
import { useTheme } from "./theme";

export function ThemeSwitch() {
  const { other, toggle } = useTheme();
  return (
    <button className="icon theme-switch" aria-label={`Switch to ${other}`} title={`Switch to ${other}`} onClick={toggle}>
      <Icon name={other === "dark" ? "moon" : "sun"} />
    </button>
  );
}
