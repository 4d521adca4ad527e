"""Who should look at a pull request, and how urgent it is. Pure: knows neither GitHub nor the bot."""
