UNUSUAL = "The kernel is folded by einsum, its scale from a power."
REPLACE = {
    "fold": """
scale = gamma * (variance + epsilon) ** -0.5
folded_w = np.einsum("ijck,k->ijck", w, scale)
folded_b = b * scale + (beta - mean * scale)
""",
}
