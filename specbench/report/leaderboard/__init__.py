"""The leaderboard: one table per thing that was measured, in several forms."""
